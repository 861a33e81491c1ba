"""The task `semantic`: a class for each pixel.

Its losses are the registered ones (--loss), its metrics the registered metrics of labels (--metrics).
"""

from __future__ import annotations

from deeplab.core.lazy import tf
from deeplab.options import ModelOptions
from deeplab.registry import Output, Task, register


def outputs(options: ModelOptions) -> list[Output]:
    """Returns an output of logits for each entry of `ModelOptions.outputs_to_num_classes`."""
    return [
        Output(name, classes, activation=lambda logits: tf.nn.softmax(logits))
        for name, classes in sorted(options.outputs_to_num_classes.items())
    ]


register(Task(name='semantic', summary='A class for each pixel.', outputs=outputs))
