"""Runs inside the release: times mgr commands or client writes until its input ends.

`inside.py CONF commands` asks each command in turn over one connection;
`inside.py CONF writes POOL DEPTH` keeps DEPTH writes of 4 KiB in flight.  Prints one JSON
object: a list of latencies in us for each name.
"""

import json
import select
import sys
import threading
import time

import rados  # type: ignore[import-not-found,unused-ignore]

# (name shown, whom it asks): the module itself, another module, the mgr, a mon
COMMANDS = (
    ("wcache status", "mgr"), ("balancer status", "mgr"), ("pg stat", "mgr"), ("osd stat", "mon"),
)
PAUSE_S = 0.02
WRITE_BYTES = 4096
OBJECTS = 256


def over():
    """Whether the input has ended."""
    return bool(select.select([sys.stdin], [], [], 0)[0])


def commands(cluster):
    """Latencies of each of COMMANDS."""
    found = {name: [] for name, _ in COMMANDS}
    while not over():
        for name, whom in COMMANDS:
            ask = cluster.mgr_command if whom == "mgr" else cluster.mon_command
            began_ns = time.monotonic_ns()
            code, _, said = ask(json.dumps({"prefix": name, "format": "json"}), b"")
            spent_ns = time.monotonic_ns() - began_ns
            if code != 0:
                raise SystemExit(f"{name}: {said} ({code})")
            found[name].append(spent_ns / 1e3)
        time.sleep(PAUSE_S)
    return found


def writes(cluster, pool, depth):
    """Latencies of 4 KiB writes, as a client sees them."""
    found = []
    stop = threading.Event()

    def client(number):
        mine = []
        with cluster.open_ioctx(pool) as ioctx:
            serial = 0
            while not stop.is_set():
                name = f"bench.{number}.{serial % OBJECTS}"
                serial += 1
                began_ns = time.monotonic_ns()
                ioctx.write(name, b"w" * WRITE_BYTES, 0)
                mine.append((time.monotonic_ns() - began_ns) / 1e3)
        found.extend(mine)

    threads = [threading.Thread(target=client, args=(number,)) for number in range(depth)]
    for thread in threads:
        thread.start()
    while not over():
        time.sleep(0.05)
    stop.set()
    for thread in threads:
        thread.join()
    return {"writes": found}


def main():
    conf, what = sys.argv[1:3]
    with rados.Rados(conffile=conf, name="client.admin") as cluster:
        if what == "commands":
            found = commands(cluster)
        else:
            found = writes(cluster, sys.argv[3], int(sys.argv[4]))
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
