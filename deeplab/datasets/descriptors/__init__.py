"""The known data sets: a description for each, with the keys of a description that a user writes, and a summary."""

import json
import pathlib

from deeplab.datasets.descriptor import DatasetDescriptor
from deeplab.registry import register

for _path in sorted(pathlib.Path(__file__).parent.glob('*.json')):
    register(DatasetDescriptor(**json.loads(_path.read_text('utf-8'))))
