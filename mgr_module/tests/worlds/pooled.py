"""Answers of the analysis pooled as `wcache analyze` pools them, for tests that alter answers."""

from dataclasses import replace

from bench_decision import synthetic
from wcache.analysis.experiment import analysed
from wcache.analysis.pooling import pool
from wcache.core import codec
from wcache.core.model import LoadPoint
from wcache.core.options.entries import OptionTrial

BASE = synthetic.record(synthetic.lognormal(synthetic.random.Random(1), ratio=1.0), 1)


def kept(answer):
    """The result that an answer would be kept as."""
    trial = answer.get("compared")
    setup = replace(
        synthetic.SETUP, domain_id=answer["subject"]["domain_id"],
        drive_id=answer["subject"]["domain_id"], simulated=answer["alike"]["simulated"],
        load_point=LoadPoint(answer["alike"]["load_point"]),
        option=None if trial is None else codec.decode(OptionTrial, trial, "compared"),
    )
    record = replace(BASE, setup=setup, record_id=answer["record_id"])
    return replace(analysed(record, answer).result, pairs=answer["pairs"])


def pooled(answers, options):
    """The pool of answers, or None."""
    return pool([kept(answer) for answer in answers], answers[0]["alike"], options)
