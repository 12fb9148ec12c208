"""Probes as cephadm services of type `container`, one for each host.

`args` of such a spec has had two meanings (arguments of the container runtime, or of the
program: cephadmlib/daemons/custom.py), so only `extra_container_args` and
`extra_entrypoint_args` are used.  A custom container has no hook after its end: the probe
restores when it is told to stop, and always when it starts.
"""

from __future__ import annotations

from typing import Any, Dict, Sequence

from .form import (
    AT_END,
    AT_START,
    END,
    PROGRAM,
    STOP_TIMEOUT_S,
    Script,
    entity_of,
    for_each,
    keyring_of,
)
from .yaml_text import yaml_lines

# Where the container has the host's /etc, /boot and /usr/lib, to read rules and images.
HOST_ROOT = "/host"
_RUN_FOLDER = "/run/wcache"
_TMPFILES = "/etc/tmpfiles.d/wcache.conf"
# With the probe in its image, a host whose /usr is read-only does not have the program.
_WHERE_IT_IS = "! command -v wcache-probe >/dev/null || wcache-probe {}"


def spec(hostname: str, image: str, *, program_inside: bool) -> Dict[str, Any]:
    """The service specification of a host's probe.

    `program_inside`: the image has the probe; else the host's own is mounted into it.
    """
    mounts = {
        "/dev": "/dev",
        "/sys": "/sys",
        "/run/udev": "/run/udev:ro",
        _RUN_FOLDER: _RUN_FOLDER,
        "/var/lib/wcache": "/var/lib/wcache",
        "/var/lib/ceph": "/var/lib/ceph:ro",
        "/etc/ceph": "/etc/ceph:ro",
        "/etc": f"{HOST_ROOT}/etc:ro",
        "/boot": f"{HOST_ROOT}/boot:ro",
        "/usr/lib": f"{HOST_ROOT}/usr/lib:ro",
    }
    if not program_inside:
        mounts[PROGRAM] = f"{PROGRAM}:ro"
    return {
        "service_type": "container",
        "service_id": f"wcache-{hostname}",
        "placement": {"hosts": [hostname]},
        "extra_container_args": [
            "--net=host", "--pid=host", f"--stop-timeout={STOP_TIMEOUT_S}",
            # cephadm asks for an init, which must be process 1: podman starts no container that
            # has it in the host's pid namespace
            "--init=false",
        ],
        "extra_entrypoint_args": [
            "run", f"--hostname={hostname}", f"--keyring={keyring_of(hostname)}",
            f"--host-root={HOST_ROOT}",
        ],
        "spec": {
            "image": image,
            "entrypoint": PROGRAM,
            "uid": 0,
            "gid": 0,
            "privileged": True,
            "volume_mounts": mounts,
        },
    }


def install(hostnames: Sequence[str], image: str, *, program_inside: bool) -> Script:
    """Prepare each host, have its key carried there, apply the specs.

    A host that cannot be prepared gets its probe all the same, which says what it may not
    toggle, and is told of at the end.
    """
    on_host = (
        f"install -d -m 700 /var/lib/wcache; echo d {_RUN_FOLDER} 0755 >{_TMPFILES}; "
        f"systemd-tmpfiles --create {_TMPFILES}; "
    )
    on_host += _WHERE_IT_IS.format("prepare") if program_inside else "wcache-probe prepare"
    lines = [
        AT_START,
        *for_each(
            hostnames,
            f'ssh -n "root@$host" "{on_host}"; prepared=$?',
            f'ceph orch client-keyring set "{entity_of("$host")}" "$host" && [ $prepared = 0 ]',
        ),
        f"ceph orch apply -i - <<'{END}' || failed=\"$failed the orchestrator\"",
    ]
    for hostname in hostnames:
        lines += ["---", *yaml_lines(spec(hostname, image, program_inside=program_inside))]
    lines += [END, AT_END]
    needs = (
        f"without {PROGRAM} is not prepared: its SCSI and SATA drives are not toggled."
        if program_inside
        else f"needs {PROGRAM}: the package wcache-probe or its zipapp, its unit disabled."
    )
    return Script(
        (
            "Run this where `ceph` works as an admin and root has ssh to the hosts.  Each host",
            needs,
            "Memory: cephadm's autotuner counts 1 GiB for each daemon of this type, and takes it",
            "off the OSDs of the host.  To keep their targets, run this first:",
            "  ceph orch host label add HOST _no_autotune_memory",
            "and set osd_memory_target yourself, or per OSD osd_memory_target_autotune false.",
        ),
        tuple(lines),
    )


def remove(hostname: str) -> Script:
    """Remove the service, which makes the probe restore, then what is on the host."""
    on_host = f"{{ {_WHERE_IT_IS.format('unprepare')}; }} && rm -rf {_TMPFILES} {_RUN_FOLDER}"
    return Script(
        (),
        (
            f"ceph orch rm container.wcache-{hostname}",
            "for turn in $(seq 90); do",
            f"  ceph orch ps --service_name container.wcache-{hostname} --format json |",
            "    grep -q daemon_id || break",
            "  sleep 2",
            "done",
            f"ceph orch client-keyring rm {entity_of(hostname)}",
            f'ssh -n "root@{hostname}" "{on_host}"',
        ),
    )
