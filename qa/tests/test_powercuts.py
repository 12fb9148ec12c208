"""What the power cuts conclude, and from what."""

from drive_lab.powercuts.blocks import (
    BLOCK_BYTES,
    BLOCKS,
    Written,
    decode,
    decode_acks,
    encode,
    encode_ack,
)
from drive_lab.powercuts.plan import (
    CONTROL_EVERY,
    PATHS,
    Cut,
    Verb,
    control_plan,
    has_control,
    round_plan,
)
from drive_lab.powercuts.referee import judge
from wcache.core.model import Transport

TAG = 7


def region(written=()):
    data = bytearray(BLOCKS * BLOCK_BYTES)
    for one in written:
        at = one.block * BLOCK_BYTES
        data[at : at + BLOCK_BYTES] = encode(one)
    return bytes(data)


# ---- the referee


def test_what_is_there_is_not_lost_and_nor_is_what_a_later_write_replaced():
    on_medium = region([Written(TAG, 3, 0), Written(TAG, 2, 5)])
    verdict = judge(TAG, [(1, 0), (2, 5), (3, 0)], on_medium)
    assert (verdict.acknowledged, verdict.lost) == (3, ())
    assert judge(TAG, [(1, 0)], on_medium).lost == ()


def test_an_acknowledged_write_is_lost_where_an_earlier_one_is_in_its_place():
    verdict = judge(TAG, [(1, 0), (4, 0), (2, 5)], region([Written(TAG, 1, 0)]))
    assert verdict.lost == (Written(TAG, 4, 0), Written(TAG, 2, 5))


def test_another_rounds_block_another_place_and_a_torn_block_are_losses():
    for wrong in (Written(TAG + 2, 9, 3), Written(TAG, 9, 4)):
        data = bytearray(region())
        data[3 * BLOCK_BYTES : 4 * BLOCK_BYTES] = encode(wrong)
        assert judge(TAG, [(1, 3)], bytes(data)).lost == (Written(TAG, 1, 3),)
    torn = encode(Written(TAG, 9, 0))[: BLOCK_BYTES // 2] + bytes(BLOCK_BYTES // 2)
    assert decode(torn) is None


def test_an_acknowledgement_that_was_half_told_is_none():
    told = encode_ack(1, 2) + encode_ack(2, 255)
    assert decode_acks(told) == [(1, 2), (2, 255)]
    assert decode_acks(told[:-1]) == [(1, 2)]


# ---- the plans


def test_the_plan_of_a_round_follows_from_its_seed_and_number_alone():
    assert round_plan(5, 77) == round_plan(5, 77)
    assert round_plan(5, 77) != round_plan(6, 77)
    assert control_plan(5, 24) == control_plan(5, 24)


def test_nine_rounds_take_every_transport_with_everything_on_it():
    for first in (1, 10, 991):
        plans = [round_plan(3, number) for number in range(first, first + 9)]
        assert {(plan.transport, plan.stack) for plan in plans} == set(PATHS)


def test_a_thousand_rounds_have_every_event_and_cut_and_reset_what_can_be_reset():
    plans = [round_plan(1, number) for number in range(1, 1001)]
    verbs = [event.verb for plan in plans for event in plan.events]
    assert set(verbs) == set(Verb)
    assert {plan.cut for plan in plans} == set(Cut)
    resets = {
        plan.transport for plan in plans for e in plan.events if e.verb is Verb.RESET
    }
    assert resets == {Transport.SCSI, Transport.NVME}


def test_every_run_ends_with_a_control_and_a_long_one_has_each_kind():
    controls = [n for n in range(1, 1001) if has_control(n, 1000)]
    plans = [control_plan(1, n) for n in controls]
    assert {(plan.transport, plan.stack) for plan in plans} == set(PATHS)
    assert len(controls) == len(range(1, 1001, CONTROL_EVERY)) + 1
    assert has_control(1, 1000)
    assert has_control(5, 5)
