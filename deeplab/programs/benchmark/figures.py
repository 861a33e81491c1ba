"""Figures of `deeplab benchmark`. Importing this module does not load TensorFlow."""

from __future__ import annotations

import dataclasses

from deeplab.inference.engine_choice import Candidate


@dataclasses.dataclass(frozen=True)
class Inference:
    """A network that predicts batches of one size; times in seconds.

    Attributes:
      threads: number of threads.
      batch_size: images at a time.
      load_seconds: time to build the network, restore its weights and open it in the engine.
      first_seconds: time of the first batch.
      seconds: time of a later batch, median.
      peak_bytes: peak resident memory of the process so far.
      skipped: why it was not measured; empty if it was.
      engine: what ran it, also if 'auto' chose that; empty if it was not measured.
      precision: type in which that computed.
      candidates: what 'auto' chose from.
    """

    threads: int
    batch_size: int
    load_seconds: float = 0.0
    first_seconds: float = 0.0
    seconds: float = 0.0
    peak_bytes: int | None = None
    skipped: str = ''
    engine: str = ''
    precision: str = ''
    candidates: tuple[Candidate, ...] = ()

    @property
    def images_per_second(self) -> float:
        """Images per second of later batches."""
        return self.batch_size / self.seconds if self.seconds else 0.0


@dataclasses.dataclass(frozen=True)
class Training:
    """A training with one batch size; times in seconds.

    Attributes:
      batch_size: images of a step.
      start_seconds: time from the start of the process to the end of the first steps.
      seconds: time of a later step, mean.
      waiting_share: share of the step in which it waits for its batch.
      peak_bytes: peak resident memory of the process; None if unknown.
      skipped: why it was not measured; empty if it was.
    """

    batch_size: int
    start_seconds: float = 0.0
    seconds: float = 0.0
    waiting_share: float | None = None
    peak_bytes: int | None = None
    skipped: str = ''

    @property
    def images_per_second(self) -> float:
        """Images per second."""
        return self.batch_size / self.seconds if self.seconds else 0.0


@dataclasses.dataclass(frozen=True)
class Parts:
    """Images per second of what stands around the network: reading and decoding records, and writing predictions."""

    reading: float
    writing: float
