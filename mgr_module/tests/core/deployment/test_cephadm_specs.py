"""What cephadm makes of our specs can be started by podman."""

from wcache.core.deployment.cephadm import install, remove, spec

# cephadm's own arguments come first (cephadmlib/container_types.py), and the last one counts.
CEPHADMS = ["--init"]


def test_a_probes_container_has_no_init_where_it_has_the_hosts_processes():
    """Podman: "cannot add init binary as PID 1 (PID namespace isn't private)"."""
    given = [*CEPHADMS, *spec("h1", "image", program_inside=False)["extra_container_args"]]
    init = [each for each in given if each.partition("=")[0] == "--init"][-1]
    assert "--pid=host" in given
    assert init == "--init=false"


def test_what_was_made_on_a_host_is_removed_there_and_only_once_it_is_not_prepared():
    made = install(["h1"], {"h1": "image"}, program_inside=False).text
    (removal,) = [line for line in remove("h1").lines if "unprepare" in line]
    for path in ("/run/wcache", "/etc/tmpfiles.d/wcache.conf"):
        assert path in made
        assert path in removal.partition("wcache-probe unprepare && rm -rf ")[2]
