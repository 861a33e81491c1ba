"""Options of predictions that are written as annotations of labeling tools."""

from __future__ import annotations

import dataclasses

from deeplab.options.fields import Options, declared

# Formats that `deeplab predict` writes; the modules of datasets/annotations have their writers.
ANNOTATION_FORMATS = ('labelme', 'cvat', 'coco', 'label_studio', 'supervisely', 'geojson')


@dataclasses.dataclass(frozen=True)
class AnnotationOptions(Options):
    """How the areas of a prediction become shapes of a labeling tool."""

    polygon_tolerance: float = declared(
        1.0,
        'Tolerance, in pixels, for simplifying the outlines of annotations; neighboring areas keep a shared border. '
        '0: exactly the predicted pixels, as bitmaps if polygons of the tool cannot be exact.',
        range='[0, inf)',
    )
    minimum_area: int = declared(
        16,
        'Minimum size, in pixels: smaller areas are left out of annotations, and smaller holes are filled.',
        range='[0, inf)',
    )
