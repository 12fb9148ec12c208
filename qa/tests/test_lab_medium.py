"""The lab's drives keep data as a drive does: stable, volatile, and lost in a power cut."""

import pytest
from drive_lab.drives.medium import BLOCK_BYTES, Medium
from examples import examples
from hypothesis import given
from hypothesis import strategies as st

SIZE_BYTES = 8 * BLOCK_BYTES
SECTOR_BYTES = 512

sectors = st.integers(0, SIZE_BYTES // SECTOR_BYTES - 1)
writes = st.tuples(
    st.sampled_from(["cached", "through"]), sectors, st.integers(1, 20), st.integers(1, 255)
)
steps = st.one_of(writes, st.sampled_from([("flush",), ("cut",)]))


@pytest.mark.slow
@examples(150)
@given(st.lists(steps, max_size=25))
def test_reads_see_every_write_and_a_power_cut_takes_only_what_was_not_flushed(
    tmp_path_factory, script
):
    medium = Medium(tmp_path_factory.mktemp("m") / "drive", SIZE_BYTES, SIZE_BYTES)
    seen, stable = bytearray(SIZE_BYTES), bytearray(SIZE_BYTES)
    for step in script:
        if step[0] == "flush":
            medium.flush()
            stable[:] = seen
        elif step[0] == "cut":
            medium.power_cut()
            seen[:] = stable
        else:
            kind, sector, count, value = step
            start = sector * SECTOR_BYTES
            stop = min(SIZE_BYTES, start + count * SECTOR_BYTES)
            data = bytes([value]) * (stop - start)
            seen[start:stop] = data
            if kind == "through":
                stable[start:stop] = data
                medium.write_through(start, data)
            else:
                medium.write_cached(start, data)
        assert medium.read(0, SIZE_BYTES) == seen
    medium.power_cut()
    assert medium.read(0, SIZE_BYTES) == stable
    medium.close()


def test_a_full_cache_destages_its_oldest_block(tmp_path):
    medium = Medium(tmp_path / "drive", SIZE_BYTES, 2 * BLOCK_BYTES)
    for block in range(3):
        medium.write_cached(block * BLOCK_BYTES, b"x" * BLOCK_BYTES)
    assert medium.dirty_blocks == 2
    assert medium.power_cut() == 2
    assert medium.read(0, BLOCK_BYTES) == b"x" * BLOCK_BYTES
    assert medium.read(BLOCK_BYTES, BLOCK_BYTES) == bytes(BLOCK_BYTES)


@pytest.mark.parametrize("size_bytes", [0, -BLOCK_BYTES, BLOCK_BYTES + 512])
def test_a_size_that_is_no_number_of_blocks_is_refused(tmp_path, size_bytes):
    with pytest.raises(ValueError, match="multiple"):
        Medium(tmp_path / "drive", size_bytes, BLOCK_BYTES)
