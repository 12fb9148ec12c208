"""The physics of one simulated drive, in virtual time.

Every command takes the time in nanoseconds and returns its latency in nanoseconds; the
caller lets that time pass, by sleeping or by adding.  Standard library only and a few
microseconds per command, so that a block server can call it for every request.

The latency of a command is its median times exp(spread * z + level), plus now and then
a stall.  z is an AR(1) process with unit variance, one step per command; level is the
sum of the period's random effect, the drift and what the last toggle left behind.

What a power cut would lose is counted, not guessed: `dirty_writes` are acknowledged
writes that are only in the volatile cache, `lost_writes` those that a power cut took.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from enum import Enum
from typing import Dict, List, Mapping, Optional, Tuple

from wcache.core.model import CacheMode

from .drive_schema import DriveModelSpec, OpLatency, Restored, Toggle
from .media_cache import MediaCache

NS_PER_HOUR = 3_600_000_000_000
DRIFT_LN_MAX = 4.0  # a drift levels off at a factor of 55
CARRYOVER_DECAYS = 12.0  # after that many time constants nothing is left to see


class ResetKind(str, Enum):
    """What can put the caching parameters back."""

    POWER_ON = "power on"
    RESET = "reset"  # of the LUN, the bus or the controller: the power stays on


class ToggleOutcome(str, Enum):
    """What became of a command that sets the cache mode."""

    CHANGED = "changed"
    UNCHANGED = "unchanged"  # it was in that mode already
    REFUSED = "refused"
    IGNORED = "ignored"  # reported as a success


@dataclass
class DriveCounters:
    """What reached the drive since it was made."""

    reads: int = 0
    writes: int = 0  # acknowledged from the cache
    fua_writes: int = 0  # on the medium before they were acknowledged
    flushes: int = 0
    dirty_flushes: int = 0
    flush_ns: float = 0.0  # spent in flushes, as the kernel counts it


_Op = Tuple[float, float, float, float, float]


class SimulatedDrive:
    """One drive of a drive model; `seed` and `index` decide all of its noise.

    Two ways to use it.  `write`, `flush` and `read` are commands: each draws its own
    noise and waits for the drive's channels.  The `*_cost` methods are for a caller
    that keeps its own time: it calls `advance` where a new sample begins, and the
    commands of that sample share its noise, so that the sample itself has the spread
    and the autocorrelation which the drive model states.

    `as_backend` is for a block server behind an emulated disk that has the switch
    itself: the cache is always on here, nothing toggles it, and the FUA of each write
    says what the switch in front is set to.
    """

    def __init__(
        self, spec: DriveModelSpec, seed: int, index: int = 0, as_backend: bool = False
    ) -> None:
        self.spec = spec
        self.seed = seed
        self.index = index
        self.counters = DriveCounters()
        self.dirty_writes = 0
        self.dirty_bytes = 0
        self.lost_writes = 0
        self.lost_bytes = 0
        self.saved = spec.cache.saved
        self.options: Dict[str, str] = {one.name: one.value for one in spec.options}
        self._slower = 1.0
        self._mode = CacheMode.WRITE_THROUGH
        self._rng = random.Random(f"wcache drive {seed} {spec.name} {index}")
        self._read = self._op(spec.latency.read)
        self._write = self._op(spec.latency.write)
        self._fua = self._op(spec.latency.fua_write)
        self._dirty_flush = self._op(spec.latency.dirty_flush)
        self._clean_flush = self._op(spec.latency.clean_flush)
        self._ns_per_byte = 1e9 / (spec.device.bandwidth_mib_s * 2**20)
        self._free_at_ns: List[int] = [0] * spec.device.channels
        self._media_cache = MediaCache(spec.media_cache)
        self._phi = spec.noise.autocorrelation
        self._innovation = math.sqrt(1.0 - self._phi * self._phi)
        self._drift_per_ns = spec.noise.drift_per_hour / NS_PER_HOUR
        self._drift_from_ns: Optional[int] = None
        self._carry_ln = math.log(spec.carryover.after_toggle_factor)
        self._decay_ns = spec.carryover.decay_s * 1e9
        self._toggled_at_ns = -1
        self._noisy = self._is_noisy()
        self._z = self._rng.gauss(0.0, 1.0)
        self._level = 0.0
        self._period_ln = 0.0
        self.begin_period()
        self._restore(spec.cache.after_power_on)
        self._backend_fua: Optional[bool] = None
        self._as_backend = as_backend
        self._watch_fua = as_backend and self._carry_ln != 0
        if as_backend:
            self._mode = CacheMode.WRITE_BACK

    def set_options(self, values: Mapping[str, str]) -> None:
        """Have options at these values."""
        self.options = dict(values)
        self._slower = math.prod(
            one.slow_factor for one in self.spec.options
            if one.slow_value and self.options.get(one.name) == one.slow_value
        )

    def _op(self, op: OpLatency) -> _Op:
        own = self._rng.gauss(0.0, 1.0) * self.spec.noise.between_drive_spread
        return (
            op.median_us * 1e3 * math.exp(own),
            op.spread,
            op.stall_probability,
            op.stall_us * 1e3,
            op.stall_spread,
        )

    def _is_noisy(self) -> bool:
        noise = self.spec.noise
        ops = (self._read, self._write, self._fua, self._dirty_flush, self._clean_flush)
        return (
            any(op[1] > 0 for op in ops)
            or noise.between_period_spread > 0
            or noise.drift_per_hour != 0
            or self._carry_ln != 0
        )

    def renew_noise(self, run: int) -> None:
        """Other noise from here on, for a drive that is simulated again: the drive itself,
        its share of `between_drive_spread` included, stays what it is."""
        self._rng = random.Random(
            f"wcache drive {self.seed} {self.spec.name} {self.index} {run}"
        )

    # The cache and its switch

    @property
    def mode(self) -> CacheMode:
        """The mode the drive is in and reports; without a cache it is write through."""
        return self._mode

    @property
    def volatile(self) -> bool:
        """Whether an acknowledged plain write can be lost to a power cut now."""
        return (
            self._mode is CacheMode.WRITE_BACK and not self.spec.cache.power_loss_protection
        )

    def set_cache(self, mode: CacheMode, now_ns: int, save: bool = False) -> ToggleOutcome:
        """Tell the drive to change its mode, with `save` in its saved parameters too.

        A drive that can't save refuses a `save` as a whole.  A drive that leaves
        write back writes its cache to the medium by itself (SBC-4, caching mode page).
        """
        cache = self.spec.cache
        fixed = cache.toggle is Toggle.REFUSES or not cache.present or self._as_backend
        if fixed or (save and not cache.savable):
            return ToggleOutcome.REFUSED
        if cache.toggle is Toggle.IGNORES:
            return ToggleOutcome.IGNORED
        if save:
            self.saved = mode
        if mode is self._mode:
            return ToggleOutcome.UNCHANGED
        self._set_mode(mode)
        if self.spec.carryover.toggled_to in (None, mode):
            self._toggled_at_ns = now_ns
        return ToggleOutcome.CHANGED

    def _set_mode(self, mode: CacheMode) -> None:
        self._mode = mode
        if mode is CacheMode.WRITE_THROUGH:
            self._clean()

    def _restore(self, rule: Restored) -> None:
        cache = self.spec.cache
        if not cache.present:
            self._mode = CacheMode.WRITE_THROUGH
        elif rule is Restored.SAVED and cache.savable:
            self._set_mode(self.saved)
        elif rule is not Restored.CURRENT:
            self._set_mode(cache.default)

    def reset(self, kind: ResetKind) -> CacheMode:
        """Restore the caching parameters as `kind` does; returns the mode it is in now."""
        cache = self.spec.cache
        power_on = kind is ResetKind.POWER_ON
        if not self._as_backend:
            self._restore(cache.after_power_on if power_on else cache.after_reset)
        return self._mode

    def power_cut(self) -> int:
        """Lose what is only in the volatile cache; returns how many writes that was.

        The drive keeps its mode until `reset(ResetKind.POWER_ON)`.
        """
        lost = self.dirty_writes
        self.lost_writes += lost
        self.lost_bytes += self.dirty_bytes
        self._clean()
        return lost

    def _clean(self) -> None:
        self.dirty_writes = 0
        self.dirty_bytes = 0

    # Noise

    def begin_period(self) -> None:
        """Draw the random effect of a new period of measuring."""
        spread = self.spec.noise.between_period_spread
        self._period_ln = self._rng.gauss(0.0, spread) if spread else 0.0
        self._level = self._period_ln

    def advance(self, now_ns: int) -> None:
        """Draw the noise of the sample, or of the command, that begins at `now_ns`."""
        self._media_cache.pass_time(now_ns)
        if not self._noisy:
            return
        gauss = self._rng.gauss(0.0, 1.0)
        self._z = self._phi * self._z + self._innovation * gauss if self._phi else gauss
        level = self._period_ln
        if self._drift_per_ns:
            if self._drift_from_ns is None:  # a caller's clock may count from its boot
                self._drift_from_ns = now_ns
            drift = self._drift_per_ns * (now_ns - self._drift_from_ns)
            level += min(DRIFT_LN_MAX, max(-DRIFT_LN_MAX, drift))
        if self._toggled_at_ns >= 0:
            age = (now_ns - self._toggled_at_ns) / self._decay_ns
            if age < CARRYOVER_DECAYS:
                level += self._carry_ln * math.exp(-max(0.0, age))
            else:
                self._toggled_at_ns = -1
        self._level = level

    def _cost(self, op: _Op, commands: int = 1) -> float:
        """Nanoseconds of `commands` of `op` one after the other, without their bytes."""
        median, spread, stall_probability, stall, stall_spread = op
        cost = commands * median * self._slower
        if self._noisy:
            cost *= math.exp(spread * self._z + self._level)
        if stall_probability:
            chance = stall_probability
            if commands > 1:
                chance = 1.0 - (1.0 - stall_probability) ** commands
            if self._rng.random() < chance:
                cost += stall * math.exp(stall_spread * self._rng.gauss(0.0, 1.0))
        return cost

    # Commands whose time the caller keeps

    def write_cost(self, size: int, fua: bool = False, count: int = 1) -> float:
        """Nanoseconds until `count` writes of `size` bytes, submitted at once, are done.

        They share the channels and the bandwidth.  The noise is that of `advance`.
        """
        waves = 1 if count == 1 else -(-count // len(self._free_at_ns))
        bytes_ns = count * size * self._ns_per_byte
        if self._mode is CacheMode.WRITE_THROUGH or fua:
            self.counters.fua_writes += count
            slower = self._media_cache.take(count * size)
            return self._cost(self._fua, waves) * slower + bytes_ns
        self.counters.writes += count
        if not self.spec.cache.power_loss_protection:
            self.dirty_writes += count
            self.dirty_bytes += count * size
        return self._cost(self._write, waves) + bytes_ns

    def flush_cost(self) -> float:
        """Nanoseconds of a flush; afterwards nothing is dirty, unless the drive lies.

        A drive with power-loss protection has nothing volatile to write: its flush is
        a clean one, whatever it holds.
        """
        if self.spec.cache.ignores_flushes or not self.dirty_writes:
            op = self._clean_flush
        else:
            op = self._dirty_flush
            self.counters.dirty_flushes += 1
            self._clean()
        cost = self._cost(op)
        self.counters.flushes += 1
        self.counters.flush_ns += cost
        return cost

    def read_cost(self, size: int) -> float:
        """Nanoseconds of a read of `size` bytes."""
        self.counters.reads += 1
        return self._cost(self._read) + size * self._ns_per_byte

    # Commands that draw their own noise and queue for the channels

    def write(self, now_ns: int, size: int, fua: bool = False) -> int:
        """The latency of one write of `size` bytes that arrives at `now_ns`."""
        if self._watch_fua:
            self._follow_switch(now_ns, fua)
        self.advance(now_ns)
        return self._queue(now_ns, self.write_cost(size, fua))

    def _follow_switch(self, now_ns: int, fua: bool) -> None:
        mode = CacheMode.WRITE_THROUGH if fua else CacheMode.WRITE_BACK
        if self._backend_fua not in (None, fua) and (
            self.spec.carryover.toggled_to in (None, mode)
        ):
            self._toggled_at_ns = now_ns
        self._backend_fua = fua

    def read(self, now_ns: int, size: int) -> int:
        """The latency of one read of `size` bytes that arrives at `now_ns`."""
        self.advance(now_ns)
        return self._queue(now_ns, self.read_cost(size))

    def flush(self, now_ns: int) -> int:
        """The latency of a flush: it waits for what is under way and holds the drive."""
        self.advance(now_ns)
        start = max(now_ns, *self._free_at_ns)
        done = start + int(self.flush_cost())
        self._free_at_ns = [done] * len(self._free_at_ns)
        return done - now_ns

    def _queue(self, now_ns: int, cost_ns: float) -> int:
        free = self._free_at_ns
        channel = 0
        if len(free) > 1:
            channel = free.index(min(free))
        done = max(now_ns, free[channel]) + int(cost_ns)
        free[channel] = done
        return done - now_ns
