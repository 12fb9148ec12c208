"""Runs inside the release: small writes to a bounded set of objects, so many in flight at once.

`rados bench` makes a new object by each small write: after some minutes an OSD that was down
has half a million of them to recover.  Ends with its standard input.

    writes_inside.py CONF POOL OBJECTS DEPTH
"""

import random
import sys
import threading

import rados

WRITE = bytes(4096)


def main():
    conf, pool = sys.argv[1:3]
    objects, depth = (int(word) for word in sys.argv[3:5])
    cluster = rados.Rados(conffile=conf, name="client.admin")
    cluster.connect()
    ioctx = cluster.open_ioctx(pool)
    ended = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
    chosen, slots = random.Random(1), threading.Semaphore(depth)
    while not ended.is_set():
        slots.acquire()
        ioctx.aio_write_full(
            f"o{chosen.randrange(objects)}", WRITE, lambda _: slots.release()
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
