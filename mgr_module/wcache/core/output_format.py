"""The version of what `--format json` prints: raised where a field changes its meaning or goes."""

FORMAT_VERSION = 1
