"""Work of programs that begins before TensorFlow is imported, and needs none: the check of records."""

from __future__ import annotations

from deeplab.options import EvalOptions, TrainOptions, VisOptions


def check_records(options: TrainOptions | EvalOptions | VisOptions) -> None:
    """Begins to check the records of a training, an evaluation or a visualization."""
    from deeplab.datasets import record_check  # and Pillow, which help and usage errors do not need

    cache_dir: str | None
    if isinstance(options, TrainOptions):
        cache_dir = options.train_logdir if options.clones.is_chief else None
    else:
        cache_dir = options.eval_logdir if isinstance(options, EvalOptions) else options.vis_logdir
    needs_labels = not isinstance(options, VisOptions)
    record_check.begin(options.dataset, options.model.num_classes, needs_labels, cache_dir)
