"""The division of memory on 1,000 hosts: what `make check` does on a few of them."""

import test_memory_division as few


def test_it_is_within_5_percent_of_brute_force_on_1000_hosts(monkeypatch):
    monkeypatch.setattr(few, "HOSTS_BRUTE", 1000)
    few.test_a_division_is_within_5_percent_of_brute_force_and_never_overcommits()


def test_its_own_result_moves_nothing_on_1000_hosts(monkeypatch):
    monkeypatch.setattr(few, "HOSTS_STABLE", 1000)
    few.test_a_division_of_its_own_result_moves_nothing()
