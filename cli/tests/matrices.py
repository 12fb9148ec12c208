"""Write+sync matrices of drives whose truth is chosen."""

import math
import random

from wcache.core.experiment.design import coin
from wcache.core.experiment.matrix import (
    MATRIX_FORMAT,
    MATRIX_VERSION,
    CellSamples,
    Matrix,
    MatrixPair,
    MatrixPeriod,
    Sync,
    cells_of,
)
from wcache.core.model import CacheMode, DriveModel, Transport
from wcache.core.options.entries import mode_of_arm

WB, WT = CacheMode.WRITE_BACK, CacheMode.WRITE_THROUGH
RATIOS = {Sync.NONE: 0.2, Sync.FDATASYNC: 4.0, Sync.DSYNC: 1.0}
SEED = 11


def a_matrix(pairs=8, noise=0.03, draw=5):
    rng = random.Random(draw)

    def period(mode, index):
        cells = []
        for cell in cells_of(SEED, index):
            level = 1e6 * (RATIOS[cell.sync] if mode is WB else 1.0) * math.exp(rng.gauss(0, noise))
            count = 30 if cell.depth == 1 else 1
            samples = tuple(round(level * math.exp(rng.gauss(0, 0.1))) for _ in range(count))
            cells.append(CellSamples(cell, samples, count, 0.5))
        return MatrixPeriod(mode, 1e9 + index, 5.0, (), (), tuple(cells))

    return Matrix(
        MATRIX_FORMAT, MATRIX_VERSION, "matrix.1", "h1", "sdz1", "d", "w",
        DriveModel("V", "M", "1"), Transport.SCSI, True, SEED, 0.5, 0.5, 8,
        tuple(
            MatrixPair(i, mode_of_arm(coin(SEED, i)), period(WB, i), period(WT, i))
            for i in range(pairs)
        ),
        (), 4096, "done",
    )
