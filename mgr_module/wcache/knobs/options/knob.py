"""Options of drives and OSDs as a knob."""

from __future__ import annotations

from ...core.model import FindingCode
from ...core.options.entries import OPTIONS
from ..knob import Knob

ADVICE = (
    (
        FindingCode.OPTION_DRIFT,
        "option{s} {does|do} not have the value that was applied",
        "a reboot of the host does that: of drives' options bcache's mode alone survives one. Set "
        "it again with `ceph wcache plan --knob=options` and `apply`, or go back with `ceph wcache "
        "rollback` and the plan that is named",
    ),
)
# What was measured of one option holds while the others stay, so they have a plan of their own.
OPTIONS_KNOB = Knob(
    "options", "options of drives and OSDs that `ab` has compared",
    tuple(one.name for one in OPTIONS if not one.on_host), ADVICE, together=False, assigns=True,
)
