"""Network flags from the run manifest (run.json) of the training that wrote a checkpoint.

Importing this module does not load TensorFlow.
"""

from __future__ import annotations

from typing import Any

from deeplab import common
from deeplab.datasets import descriptor
from deeplab.errors import UserError
from deeplab.files import run_manifests


def facts_of_data(run: run_manifests.Run) -> dict[str, Any]:
    """Returns the numbers of classes and channels of a run's data set, by the names of flags of export_model."""
    model = (run.get('options') or {}).get('model') or {}
    classes = (model.get('outputs_to_num_classes') or {}).get(common.OUTPUT_TYPE)
    facts = {'num_classes': classes, 'image_channels': model.get('input_channels')}
    return {name: value for name, value in facts.items() if isinstance(value, int)}


def bits_of_data(file: str, run: run_manifests.Run) -> dict[str, int]:
    """Returns the bits of the images of a run's data set, by the name of the flag of export_model.

    Args:
      file: path of the run.json.
      run: the run in it.

    Returns:
      Nothing if the data set is not known here.
    """
    dataset = descriptor.trusted_name_in_run(file, run)
    try:
        return {} if dataset is None else {'image_bits': descriptor.load(dataset).image_bits}
    except UserError:  # which is reported where the data set is needed
        return {}
