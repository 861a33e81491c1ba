"""Options of rasters: TIFF and GeoTIFF files with any bands."""

from __future__ import annotations

import dataclasses

from deeplab.options.fields import Options, declared


@dataclasses.dataclass(frozen=True)
class RasterOptions(Options):
    """Which bands of a raster are the channels of an image, and which values they have."""

    bands: tuple[int, ...] = declared(
        (),
        'Bands of TIFF files that become the channels, in this order, numbered from 1. Not set: all bands except '
        'transparency.',
        range='(0, inf)',
    )
    value_range: tuple[float, ...] = declared(
        (),
        'Two numbers: the values in TIFF files that are mapped to black and white, in 16-bit images. Required for '
        'data types other than uint8 and uint16. Not set: the values are not changed.',
    )

    @property
    def is_set(self) -> bool:
        """Whether bands or values are set."""
        return bool(self.bands or self.value_range)

    def otherwise(self, usual: RasterOptions) -> RasterOptions:
        """Returns the options with the values of `usual` for what is not set."""
        return RasterOptions(self.bands or usual.bands, self.value_range or usual.value_range)

    def __post_init__(self) -> None:
        super().__post_init__()
        given = self.value_range
        is_range = len(given) == 2 and given[0] < given[1]
        self._require(not given or is_range, 'value_range', 'pass two numbers, the lower one first')
        self._require(len(set(self.bands)) == len(self.bands), 'bands', 'name each band once')
