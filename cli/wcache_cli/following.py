"""What can be followed until it is over: a campaign, a plan's rollout, a memory trial."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, List, Mapping, Tuple

from wcache.core.change.stepping import between
from wcache.core.errors import MalformedError, NotFoundError
from wcache.core.model import load_name
from wcache.core.text import amount, duration, many, since, time_left, when
from wcache.core.verdict.result import turned_off

from .answers import Answers

BAR_CHARS = 30
DONE, ENDED_OTHERWISE = 0, 2  # exit codes
TRIAL_OPEN = ("running", "ending")


@dataclass(frozen=True)
class Part:
    """A part of it with a bar of its own."""

    name: str
    done: int
    whole: int  # what is expected
    status: str
    where: str


@dataclass(frozen=True)
class Look:
    """How far it is; `news` is what a log should have at once when it changes."""

    headline: str
    parts: Tuple[Part, ...]
    news: Tuple[str, ...]
    over: bool = False
    code: int = DONE
    ending: Tuple[str, ...] = ()


def look(answers: Answers, name: str) -> Look:
    """How far a campaign (c3), a plan (p1) or a memory trial is.

    Raises MalformedError where the answer is not of that kind.
    """
    try:
        if name.startswith("c"):
            return _campaign(answers.ask("campaign", "show", name))
        if name.startswith("p"):
            shown = answers.ask("rollout", "show", name)
            tried = shown.get("trials") if shown["status"] == "planned" else None
            if not tried:
                return _plan(shown)
            name = str(tried[-1]["trial_id"])  # it is only tried: the trial says how that went
        return _trial(answers.ask("memory", "trial", "show"), name)
    except (KeyError, TypeError, AttributeError):
        raise MalformedError(f"the module's answer about {name[:40]} is not understood") from None


def what_now(answers: Answers) -> str:
    """The first of what is under way, else the newest campaign.

    Raises NotFoundError where there is neither.
    """
    status = answers.ask("status")
    for key in ("rollout", "campaign"):
        if status.get(key):
            return str(status[key]).partition(",")[0]  # plans may run beside each other
    trial = answers.ask("memory", "trial", "show").get("trial")
    if isinstance(trial, dict) and trial.get("status") in TRIAL_OPEN:
        return str(trial["trial_id"])
    listed = answers.ask("campaign", "ls").get("campaigns")
    if not isinstance(listed, list) or not listed:
        raise NotFoundError("there is no campaign yet", "start one: ceph wcache campaign start")
    return str(listed[-1]["campaign_id"])


def bar(part: Part) -> str:
    """One part as a progress bar."""
    whole = max(1, part.whole)
    filled = min(BAR_CHARS, BAR_CHARS * part.done // whole)
    drawn = "#" * filled + "." * (BAR_CHARS - filled)
    return f"{part.name:8} [{drawn}] {part.done:4}/{whole} {part.where} {part.status}"


def _campaign(shown: Mapping[str, Any]) -> Look:
    rows: List[Dict[str, Any]] = shown["run_list"]
    over = shown["status"] != "running"
    parts = tuple(
        Part(row["run_id"], row["periods_done"], row["periods_expected"],
             _printable(row["status"] + (f": {row['reason']}" if row["reason"] else "")),
             f"{_printable(row['hostname'])} {_drive(row)}")
        for row in rows
    )
    ended = sum(row["status"] in ("done", "aborted") for row in rows)
    left = f", {time_left(shown)}" if "seconds_left_max" in shown and not over else ""
    headline = (
        f"campaign {shown['campaign_id']}: {ended} of {many(len(rows), 'drive')} done, "
        f"{sum(part.done for part in parts)} of about {sum(part.whole for part in parts)} "
        f"periods{left}"
    )
    news = tuple(f"{part.name} {part.where}: {part.status}" for part in parts)
    code = DONE if shown["status"] in ("running", "done") else ENDED_OTHERWISE
    return Look(headline, parts, news, over, code, tuple(_results(shown)) if over else ())


def _results(shown: Mapping[str, Any]) -> List[str]:
    """What came out, a line for each result."""
    lines = [
        f"campaign {shown['campaign_id']}: {shown['status']}, "
        f"{duration(shown['seconds'])} of drive time, {amount(shown['bytes_written'])} written"
    ]
    for result in shown["results"]:
        lines.append(
            f"osd.{result['osd_id']} {_drive(result)} {load_name(result['load_point'])}: "
            f"{result['verdict']}, cache off {turned_off(result)}"
        )
    return lines


def _plan(shown: Mapping[str, Any]) -> Look:
    status, reason = shown["status"], _printable(shown["reason"])
    name = f"plan {shown['plan_id']}"
    over = shown["seconds_left_most"] is None
    said = f"{name}: {status}" + (f" ({reason})" if reason else "")
    waiting = "; ".join(_printable(str(item)) for item in shown["waiting_for"])
    left = "" if over else (
        f", {between(shown['seconds_left_least'], shown['seconds_left_most'])} left"
    )
    if shown.get("ends_at_s") is not None:
        left += f", expected end {when(shown['ends_at_s'])} UTC"
    following = shown.get("next_step")
    if following and following["size"]:
        left += f"; next step: {many(following['size'], 'change')}, {_printable(following['why'])}"
    so_far = tuple(_printable(f"so far: {item['kind']}: {item['of']} latency "
                              + since(item["ratio"], item["low"], item["high"]))
                   for item in shown.get("evidence", ()))
    parts = tuple(
        Part(f"wave {number}", wave["changes"] - wave["statuses"].get("planned", 0),
             wave["changes"],
             ", ".join(f"{count} {word}" for word, count in wave["statuses"].items()),
             _printable(wave["name"]))
        for number, wave in enumerate(shown["waves"], 1)
    )
    headline = (
        f"{said}, {shown['applied']} of {many(shown['changes'], 'change')} in place{left}"
        + (f", waiting for: {waiting}" if waiting else "")
    )
    news = (said, waiting, *so_far, *(f"{part.name} {part.where}: {part.status}" for part in parts))
    code = DONE if status in ("done", "running") else ENDED_OTHERWISE
    ending = [headline] if over else []
    return Look(headline, parts, tuple(filter(None, news)), over, code, tuple(ending))


def _trial(shown: Mapping[str, Any], name: str) -> Look:
    one = shown["trial"]
    if one is not None and one["trial_id"] == name and one["status"] in TRIAL_OPEN:
        done, whole = len(one["periods"]), 4 * one["blocks"]
        status = _printable(one["status"])
        headline = f"memory trial {name}: {status}, {done} of {whole} periods"
        part = Part(name, done, whole, status, f"class {_printable(one['device_class'])}")
        return Look(headline, (part,), (f"memory trial {name}: {status}",))
    for result in shown["results"]:
        if result["trial_id"] == name:
            line = f"memory trial {name}: {_printable(result['verdict'])}"
            return Look(line, (), (), True, DONE, (line,))
    if one is not None and one["trial_id"] == name:
        line = f"memory trial {name}: {_printable(one['status'])} ({_printable(one['reason'])})"
        return Look(line, (), (), True, ENDED_OTHERWISE, (line,))
    raise NotFoundError(
        f"there is no campaign, plan or trial {name[:40]!r}", "see `ceph wcache status`"
    )


def _drive(row: Mapping[str, Any]) -> str:
    return _printable(",".join(row["dev_names"]) or row["domain_id"])


def _printable(text: str) -> str:
    """A drive's own text must not move the terminal's cursor."""
    return "".join(char if char.isprintable() else "?" for char in text)
