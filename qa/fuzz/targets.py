"""Every parser of outside input, and what is no target and why."""

from . import module_targets, probe_targets

TARGETS = (*module_targets.TARGETS, *probe_targets.TARGETS)
