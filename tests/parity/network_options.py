"""Converts a golden's flags and options to options classes."""

import dataclasses
from typing import Any

from deeplab import cli, common
from deeplab.options import ModelOptions


def model_options(flags: list[str], options: dict[str, Any]) -> ModelOptions:
    """The network that a golden describes."""
    height, width = options.get('size', (129, 129))
    words = [*flags, f'--output_stride={options.get("output_stride", 16)}', f'--eval_crop_size={height},{width}']
    words += [f'--atrous_rates={rate}' for rate in options.get('atrous_rates', ())]
    words += ['--checkpoint_dir=.', '--eval_logdir=.', '--dataset_dir=.']
    model = cli.options_of('eval', words).model
    # A list of weights may leave the number of classes open where the decoder's filters say it.
    classes = model.decoder.filters if model.decoder.output_is_logits else 21
    return dataclasses.replace(model, outputs_to_num_classes={common.OUTPUT_TYPE: options.get('classes', classes)})
