"""Runner of an exported network, of any format."""

from __future__ import annotations

import numpy as np

from deeplab.errors import OptionError
from deeplab.inference import exports
from deeplab.inference.runners import Runner, aligned_size, padded
from deeplab.inference.thread_bound import ThreadBound
from deeplab.options.rules import MOST_CLASSES
from deeplab.registry import ExportFormat, Outputs
from deeplab.wording import option


class ExportRunner(Runner):
    """Runs an exported network of any format.

    Attributes:
      metadata: metadata of the export; empty for one without.
      image_bits: bits of the images that it takes, 8 or 16.
      has_probabilities: whether it gives probabilities.
      shown_classes: number of classes; None if no output shows it, as without probabilities.
    """

    def __init__(self, path: str, threads: int | None = None, record: ExportFormat | None = None) -> None:
        """Loads the network.

        Args:
          path: of the export.
          threads: see `exports.opened`.
          record: see `exports.opened`.

        Raises:
          CheckpointError: There is no export, or it is not one of DeepLab.
        """
        self._path = path
        self._held = ThreadBound(lambda: exports.opened(path, threads, record))
        exported = self._held.value
        self.metadata = exported.metadata
        if 'model_variant' in self.metadata and 'output_stride' in self.metadata:
            self.network = f'{self.metadata["model_variant"]} at output stride {self.metadata["output_stride"]}'
        self.image_bits = exported.bits
        self.has_probabilities = exported.has_probabilities
        self.channels = exported.channels
        self.shown_classes = exported.num_classes
        self.num_classes = exported.num_classes or MOST_CLASSES
        self.fixed_size = exported.size
        self._pads = not exported.takes_smaller
        self._mean_pixel = np.array(self.metadata.get('mean_pixel', 127.5), np.float32)
        if self._pads and exported.size is None:
            self.alignment = int(self.metadata.get('output_stride', 1))

    def run(self, images: np.ndarray, with_probabilities: bool) -> Outputs:
        """See `Runner.run`; images are padded with the mean pixel to the size of the network's input."""
        exported = self._held.value
        if with_probabilities and not exported.has_probabilities:
            raise OptionError(
                f"'{self._path}' has no output of probabilities, which confidences need. Export the "
                f'network again, with {option("ConversionOptions.outputs", "probabilities")}'
            )
        height, width = images.shape[1:3]
        if self._pads:
            size = self.fixed_size or aligned_size((height, width), self.alignment)
            images = padded(images, size, self._mean_pixel)
        outputs = self._held.call(exported.predict, images, with_probabilities)
        probabilities = outputs.probabilities
        return Outputs(
            outputs.labels[:, :height, :width], None if probabilities is None else probabilities[:, :height, :width]
        )

    def close(self) -> None:
        """See `Runner.close`."""
        self._held.close()
