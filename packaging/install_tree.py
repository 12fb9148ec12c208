"""Put all that is installed below a folder, as it lies on a host: what deb and rpm are made of.

    /usr/bin/python3 packaging/install_tree.py DESTDIR [--unit-dir /usr/lib/systemd/system] \
        [--zsh-dir /usr/share/zsh/vendor-completions]

The programs are the zipapps: one file each, which is also what a container is given.
"""

from __future__ import annotations

import argparse
import re
import shlex
import sys
from pathlib import Path

import zipapps

PROJECT = zipapps.PROJECT
MODULE = "usr/share/ceph/mgr/wcache"
UNIT_DIR = "/usr/lib/systemd/system"
ZSH_DIR = "/usr/share/zsh/vendor-completions"  # Debian's; an EL has site-functions


def install(dest: Path, unit_dir: str = UNIT_DIR, zsh_dir: str = ZSH_DIR) -> None:
    """Fill a folder; the same tree gives the same bytes."""
    for name in zipapps.APPS:
        zipapps.build(name, dest / "usr/bin")
    source = PROJECT / "mgr_module" / "wcache"
    for path in sorted(zipapps.files_of(source)):
        _put(dest / MODULE / path.relative_to(source), path.read_bytes())
    unit = PROJECT / "templates" / "wcache-probe.service"
    _put(dest / unit_dir.lstrip("/") / unit.name, unit.read_bytes())
    _install_help(dest, zsh_dir)


def _install_help(dest: Path, zsh_dir: str) -> None:
    """Manual pages and completions, from what the programs say of themselves."""
    sys.path[:0] = [str(PROJECT / part) for part in ("cli", "osd_probe", "mgr_module")]
    import manual
    import shtab

    for page in manual.pages():
        section = page.name.rpartition(".")[2]
        _put(dest / f"usr/share/man/man{section}" / page.name, page.text.encode())
    for parser in manual.parsers():
        for shell, path in (
            ("bash", f"usr/share/bash-completion/completions/{parser.prog}"),
            ("zsh", f"{zsh_dir.lstrip('/')}/_{parser.prog}"),
        ):
            text = shtab.complete(parser, shell=shell)
            _put(dest / path, (_all_choices(text) if shell == "bash" else text).encode())


def _all_choices(text: str) -> str:
    """Put the choices of a completion for bash into lines of one text.

    The shtab of Debian 12 (1.5.5) makes an array of them and reads its first element only, so
    that no command but the first is completed.  Newer ones read both.
    """
    return re.sub(
        r"^(\w+_choices)=\((.*)\)$",
        lambda found: f"{found[1]}={shlex.quote(chr(10).join(shlex.split(found[2])))}",
        text, flags=re.MULTILINE,
    )


def _put(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    path.chmod(0o644)


if __name__ == "__main__":
    _words = argparse.ArgumentParser(description="Install all of wcache below a folder.")
    _words.add_argument("destdir", type=Path)
    _words.add_argument("--unit-dir", default=UNIT_DIR, help="default: %(default)s")
    _words.add_argument("--zsh-dir", default=ZSH_DIR, help="default: %(default)s")
    _options = _words.parse_args()
    install(_options.destdir, _options.unit_dir, _options.zsh_dir)
