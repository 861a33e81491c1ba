"""Evaluation of an image classifier with the flags of TF-Slim (`deeplab eval_image_classifier`)."""

from __future__ import annotations

if __name__ == '__main__':  # first, so that help and usage errors do not wait for TensorFlow
    import os
    import sys

    if not __package__:  # run as a file: replace the folder of this file by the folder of the package
        sys.path[0] = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
    from deeplab import start

    start.run_program('eval_image_classifier')

import dataclasses

from deeplab import eval as evaluation
from deeplab.options import EvalOptions


def run(options: EvalOptions) -> evaluation.EvalResult:
    """Evaluates as `deeplab.eval.run`; the report also has the lines of TF-Slim, such as `eval/Accuracy[0.75]`."""
    result = evaluation.run(options)
    figures = result.rounds[-1].further['classification']
    lines = [
        f'eval/{title}[{figures[name]:.6g}]' for title, name in (('Accuracy', 'accuracy'), ('Recall_5', 'recall_5'))
    ]
    return dataclasses.replace(result, report='\n'.join([result.report, *lines]))
