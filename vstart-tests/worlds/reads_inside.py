"""Runs inside the release: objects with large onodes, and random reads of them at a fixed rate.

An attribute of some kilobytes is kept with the onode, so that few objects fill a small cache
and its turnover takes seconds.  The rate does not follow the latency, so that misses per
second tell of the cache alone.  Ends with its standard input.

    reads_inside.py CONF POOL OBJECTS ATTRIBUTE_BYTES READS_PER_S
"""

import random
import sys
import threading
import time

import rados

AT_ONCE = 16


def write(ioctx, objects, attribute_bytes):
    """Every object with its attribute; one at a time for each thread."""
    filler = random.Random(1).randbytes(attribute_bytes)

    def some(first):
        for number in range(first, objects, AT_ONCE):
            op = ioctx.create_write_op()
            op.new(rados.LIBRADOS_CREATE_IDEMPOTENT)
            op.set_xattr("filler", filler)
            ioctx.operate_write_op(op, f"o{number}")
            ioctx.release_write_op(op)

    threads = [threading.Thread(target=some, args=(n,)) for n in range(AT_ONCE)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def read(ioctx, objects, per_s, ended):
    """Until the end: as many as are due by now, at most a second's worth of them late."""
    chosen = random.Random(2)
    slots = threading.Semaphore(64)
    due = time.monotonic()
    while not ended.is_set():
        due = max(due + 1.0 / per_s, time.monotonic() - 1.0)
        wait_s = due - time.monotonic()
        if wait_s > 0.002:
            time.sleep(wait_s)
        slots.acquire()
        ioctx.aio_stat(f"o{chosen.randrange(objects)}", lambda *_: slots.release())


def main():
    conf, pool = sys.argv[1:3]
    objects, attribute_bytes, per_s = (int(word) for word in sys.argv[3:6])
    cluster = rados.Rados(conffile=conf, name="client.admin")
    cluster.connect()
    ioctx = cluster.open_ioctx(pool)
    began = time.monotonic()
    write(ioctx, objects, attribute_bytes)
    print(f"written in {time.monotonic() - began:.1f} s", flush=True)
    ended = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
    read(ioctx, objects, per_s, ended)
    return 0


if __name__ == "__main__":
    sys.exit(main())
