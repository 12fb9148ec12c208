"""Lines of Ceph's own files that the series changes, each by the line that is there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Dict, Sequence, Tuple


@dataclass(frozen=True)
class Edit:
    """A line of a file of Ceph's, and the lines that take its place."""

    path: str
    line: str
    becomes: Tuple[str, ...]

    def made(self, text: str) -> str:
        """A file with the edit made; RuntimeError where the line is not there once."""
        lines = text.splitlines()
        places = [at for at, line in enumerate(lines) if line.strip() == self.line.strip()]
        if len(places) != 1:
            raise RuntimeError(f"{self.path}: {self.line!r} is there {len(places)} times")
        at = places[0]
        margin = lines[at][: len(lines[at]) - len(lines[at].lstrip())]
        lines[at : at + 1] = [margin + line if line else "" for line in self.becomes]
        return "\n".join(lines) + "\n"


_SELFTEST = "qa/tasks/mgr/test_module_selftest.py"

EDITS: Dict[str, Tuple[Edit, ...]] = {
    "mgr": (
        Edit("src/pybind/mgr/CMakeLists.txt", "volumes)", ("volumes", "wcache)")),
        Edit("src/pybind/mgr/tox.ini", "-m volumes", ("-m volumes \\", "-m wcache")),
        Edit("src/pybind/mgr/tox.ini", "smb", ("smb \\", "wcache")),
    ),
    "probe": (
        Edit("src/CMakeLists.txt", "add_subdirectory(ceph-node-proxy)",
             ("add_subdirectory(ceph-node-proxy)", "add_subdirectory(wcache-probe)")),
    ),
    "packaging": (
        Edit("ceph.spec.in", "%{_datadir}/ceph/mgr/volumes",
             ("%{_datadir}/ceph/mgr/volumes", "%{_datadir}/ceph/mgr/wcache")),
        Edit("ceph.spec.in", "%description mgr-modules-core", (
            "%if 0%{?suse_version}",
            "Requires:       python%{python3_pkgversion}-Jinja2",
            "%else",
            "Requires:       python%{python3_pkgversion}-jinja2",
            "%endif",
            "%description mgr-modules-core",
        )),
        Edit("ceph.spec.in", "This package provides a Ceph hardware monitoring agent.", (
            "This package provides a Ceph hardware monitoring agent.",
            "",
            "%package wcache-probe",
            "Summary:        probe of the mgr module wcache on OSD hosts",
            "BuildArch:      noarch",
            "%if 0%{?suse_version}",
            "Group:          System/Monitoring",
            "%endif",
            "Requires:       python%{python3_pkgversion}-rados",
            "Requires:       python%{python3_pkgversion}-ceph-common",
            "%description wcache-probe",
            "This package provides the program that reads and toggles the write caches of",
            "OSD drives, under leases of the mgr module wcache.",
        )),
        Edit("ceph.spec.in", "%{python3_sitelib}/ceph_node_proxy-*", (
            "%{python3_sitelib}/ceph_node_proxy-*",
            "",
            "%files wcache-probe",
            "%{_sbindir}/wcache-probe",
            "%{_unitdir}/wcache-probe.service",
            "%dir %{python3_sitelib}/wcache_probe",
            "%{python3_sitelib}/wcache_probe/*",
            "%{python3_sitelib}/wcache_probe-*",
        )),
    ),
    "qa": (
        Edit("qa/suites/rados/mgr/tasks/4-units/workunits.yaml", "- mgr/test_localpool.sh",
             ("- mgr/test_localpool.sh", "- mgr/test_wcache.sh")),
        Edit(_SELFTEST, "def test_orchestrator(self):", (
            "def test_wcache(self):", '    self._selftest_plugin("wcache")', "",
            "def test_orchestrator(self):",
        )),
    ),
    "doc": (
        Edit("doc/mgr/index.rst", "CLI API Commands module <cli_api>",
             ("CLI API Commands module <cli_api>", "Write cache module <wcache>")),
    ),
}


def edits_of(part: str) -> Sequence[Edit]:
    """The edits of one part of the series."""
    return EDITS[part]
