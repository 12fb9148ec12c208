"""Everything a report shows, gathered by read-only commands of the module."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, List, Tuple

from wcache.core import codec, versions
from wcache.core.errors import MalformedError, NotFoundError
from wcache.core.record import Record
from wcache.core.text import arguments, ticked

from .answers import Answers

HISTORY_LINES_MAX = 1000
FORMAT_VERSION = 1


@dataclass(frozen=True)
class Evidence:
    """The answers a report is made of; all but `records` are as the module gave them."""

    status: Dict[str, Any]
    drives: List[Dict[str, Any]]
    campaigns: List[Dict[str, Any]]
    recommendations: List[Dict[str, Any]]
    plans: List[Dict[str, Any]]
    history: List[Dict[str, Any]]
    records: Tuple[Record, ...]
    missing: Tuple[str, ...]  # record ids whose raw samples are no longer kept


def gather(answers: Answers) -> Evidence:
    """Ask for everything; the raw records are those of all results."""
    status = _ask(answers, "status")
    drives = _rows(_ask(answers, "drive", "ls"), "drives")
    campaigns = [
        _ask(answers, "campaign", "show", _id(row, "campaign_id"))
        for row in _rows(_ask(answers, "campaign", "ls"), "campaigns")
    ]
    recommendations = _rows(_ask(answers, "recommend"), "recommendations")
    plans = [
        _ask(answers, "plan", "show", _id(row, "plan_id"))
        for row in _rows(_ask(answers, "plan", "ls"), "plans")
    ]
    history = _rows(_ask(answers, "history", str(HISTORY_LINES_MAX)), "history")
    records: List[Record] = []
    missing: List[str] = []
    for record_id in _record_ids(recommendations, campaigns):
        try:
            found = answers.ask("campaign", "record", record_id)
        except NotFoundError:
            missing.append(record_id)
        else:
            records.append(versions.take(Record, found, f"record {record_id}"))
    return Evidence(
        status, drives, campaigns, recommendations, plans, history, tuple(records),
        tuple(missing),
    )


def plain(evidence: Evidence) -> Dict[str, Any]:
    """All of it with every sample, for programs."""
    told: Dict[str, Any] = codec.to_plain(evidence)
    return {"format_version": FORMAT_VERSION, **told}


def _ask(answers: Answers, *words: str) -> Dict[str, Any]:
    answer = answers.ask(*words)
    if answer.get("format_version") != FORMAT_VERSION:
        raise MalformedError(
            f"{ticked(arguments(('wcache', *words)))} answers in format "
            f"{codec.one_line(str(answer.get('format_version')), 10)}, this tool reads "
            f"{FORMAT_VERSION}",
            "install the tool of the module's version",
        )
    return answer


def _rows(answer: Dict[str, Any], key: str) -> List[Dict[str, Any]]:
    rows = answer.get(key)
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise MalformedError(f"the answer has no list of {key}")
    return rows


def _id(row: Dict[str, Any], key: str) -> str:
    value = row.get(key)
    if not isinstance(value, str) or not value or value.startswith("-"):
        raise MalformedError(f"an answer has no proper {key}")
    return value


def _record_ids(
    recommendations: List[Dict[str, Any]], campaigns: List[Dict[str, Any]]
) -> List[str]:
    """Each once; a result of a factorial has the samples of the record that it was measured in."""
    ids: Dict[str, None] = {}
    for row in recommendations:
        listed = row.get("record_ids")
        for record_id in listed if isinstance(listed, list) else ():
            ids[_id({"record_id": record_id}, "record_id")] = None
    for campaign in campaigns:
        compared = _rows(campaign, "option_results") if "option_results" in campaign else []
        for result in (*_rows(campaign, "results"), *compared):
            if not result.get("measured_in"):
                ids[_id(result, "record_id")] = None
    return list(ids)
