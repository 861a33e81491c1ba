"""Options of `deeplab export_model`: formats, conversion, and the proof of an export."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, NamedTuple

from deeplab.errors import OptionError
from deeplab.options.data import IMAGE_BITS, ResizeOptions
from deeplab.options.inference import PredictionOptions
from deeplab.options.network import ModelOptions
from deeplab.options.parameters import Settings, require_applicable, with_parameters
from deeplab.options.rules import require, require_choice, require_not_negative, require_positive
from deeplab.registry import EXPORT_FORMATS, values_of
from deeplab.wording import option

INPUT_TYPES = ('float32', 'uint8')
OUTPUTS = ('labels', 'probabilities')
_SHORT_NAMES = {'frozen': 'frozen_graph'}
_FORMATS, _PATH = 'ExportOptions.formats', 'ExportOptions.export_path'
_USUAL = 'frozen_graph'
_SERVED = 'saved_model'
# Conversion options that only formats of other runtimes read, and those that only the format of a server reads.
_OF_PORTABLE = ('input_type', 'outputs', 'is_resizable', 'has_dynamic_batch')
_OF_SERVED = ('serving_version', 'has_warmup')


class Target(NamedTuple):
    """One export that is to be written.

    Attributes:
      format: name of a registered export format.
      variant: one of its variants, such as 'float32' or 'int8'.
    """

    format: str
    variant: str

    def __str__(self) -> str:
        return f'{self.format}:{self.variant}'


@dataclasses.dataclass(frozen=True)
class ConversionOptions:
    """How a network is converted to the format of another runtime.

    Attributes:
      input_type: type of the images, one of `INPUT_TYPES`; values are 0 to 255 in both.
      outputs: 'labels' for the class ids alone, 'probabilities' for both.
      is_resizable: whether images may have any size instead of that of the crop.
      has_dynamic_batch: whether the number of images is known only when the network runs; otherwise, it is 1.
      calibration_split: split whose images determine the ranges of 8-bit activations.
      calibration_images: number of its images that are used.
      serving_version: version of the layout of TensorFlow Serving, PATH/VERSION/; None for PATH itself.
      has_warmup: whether a SavedModel has a request with which TensorFlow Serving warms up.
    """

    input_type: str = 'float32'
    outputs: str = 'labels'
    is_resizable: bool = False
    has_dynamic_batch: bool = False
    calibration_split: str = 'train'
    calibration_images: int = 100
    serving_version: int | None = None
    has_warmup: bool = False

    def __post_init__(self) -> None:
        require_choice('ConversionOptions.input_type', self.input_type, INPUT_TYPES)
        require_choice('ConversionOptions.outputs', self.outputs, OUTPUTS)
        require_positive('ConversionOptions.calibration_images', self.calibration_images)
        if self.serving_version is not None:
            require_positive('ConversionOptions.serving_version', self.serving_version)


@dataclasses.dataclass(frozen=True)
class ProofOptions:
    """How an export is compared with its checkpoint before it is put in place.

    Attributes:
      dataset: data set with names and colors of the classes; None for that of the training, if it is known.
      dataset_dir: folder of its records; None for none.
      verify_split: split on which both are evaluated; None for none.
      sample_images: number of images on which labels and probabilities are compared.
      max_miou_loss: largest loss of mean IoU, 0 to 1, with which an export is kept; None for any.
    """

    dataset: str | None = None
    dataset_dir: str | None = None
    verify_split: str | None = None
    sample_images: int = 4
    max_miou_loss: float | None = None

    def __post_init__(self) -> None:
        require_positive('ProofOptions.sample_images', self.sample_images)
        if self.max_miou_loss is not None:
            require_not_negative('ProofOptions.max_miou_loss', self.max_miou_loss)
            require(
                self.verify_split is not None,
                'ProofOptions.max_miou_loss',
                self.max_miou_loss,
                f'the mean IoU is measured on {option("ProofOptions.verify_split")}. Set it, too',
            )
        if self.verify_split is not None:
            _require_records('ProofOptions.verify_split', self.verify_split, self)


def _require_records(field: str, value: Any, proof: ProofOptions) -> None:
    """Raises `OptionError` if a split is named, but no folder of records."""
    require(
        proof.dataset_dir is not None,
        field,
        value,
        f'its records are unknown. Set {option("ProofOptions.dataset_dir")} to their folder',
    )


@with_parameters(EXPORT_FORMATS)
@dataclasses.dataclass(frozen=True)
class ExportOptions:
    """Options of `deeplab export_model`.

    The parameters of all export formats are keywords and attributes as well.

    Attributes:
      model: the network; its crop size is the largest image that the export accepts.
      checkpoint_path: a checkpoint, or a folder, whose newest complete checkpoint is used.
      export_path: file or folder to write, as the format requires; of several formats, the folder that contains them.
      resize: resizing of the image before the network; predictions have the size of the original image.
      prediction: scales and flips that are averaged.
      export_format: name of a registered export format; None for the format to which the ending of `export_path`
        belongs, or a frozen graph if it belongs to none.
      save_inference_graph: whether the graph with variables is written as text, too.
      use_moving_average: whether the moving averages (EMA) of the weights are used instead of the weights; None to use
        them if the run.json of the training names their decay (`inference/run_weights.py`).
      image_bits: 8 for images of uint8, 16 for uint16, as in the data set of training.
      settings: parameters of the formats that differ from their defaults.
      formats: formats with their variants, such as 'tflite:int8'; empty for `export_format`. An export that is named
        here is measured, too, and the results are written to export.json beside it.
      conversion: how the network is converted.
      proof: how an export is compared with its checkpoint.
    """

    model: ModelOptions
    checkpoint_path: str
    export_path: str
    resize: ResizeOptions = ResizeOptions()
    prediction: PredictionOptions = PredictionOptions()
    export_format: str | None = None
    save_inference_graph: bool = False
    use_moving_average: bool | None = None
    image_bits: int = 8
    settings: Settings = ()
    formats: tuple[str, ...] = ()
    conversion: ConversionOptions = ConversionOptions()
    proof: ProofOptions = ProofOptions()

    def __post_init__(self) -> None:
        targets = self.targets
        require_applicable(self, EXPORT_FORMATS, tuple(target.format for target in targets))
        for target in targets:
            self._check_variant(target)
        require(len(set(targets)) == len(targets), _FORMATS, self.formats, 'each one may be named once only')
        require(self.image_bits in IMAGE_BITS, 'ExportOptions.image_bits', self.image_bits, 'it must be 8 or 16')
        require(
            self.model.crop_size is not None,
            'ModelOptions.crop_size',
            None,
            'an export needs height and width, such as 513,513',
        )
        self._require_read_conversion()
        if self._has_portable:
            self._check_portable()
        require(
            self.proof.verify_split is None or bool(self.formats) or self._has_portable,
            'ProofOptions.verify_split',
            self.proof.verify_split,
            f'only exports that {option(_FORMATS)} names are evaluated. Set {option(_FORMATS, targets[0].format)}',
        )
        self._require_ending(targets)
        require(
            self.proof.verify_split is None or self.resize == ResizeOptions(),
            'ProofOptions.verify_split',
            self.proof.verify_split,
            f'the export resizes images itself ({option("ResizeOptions.min_value")}). Omit one of both, and evaluate '
            'the export with eval',
        )

    def _require_ending(self, targets: tuple[Target, ...]) -> None:
        """Raises `OptionError` if the path ends as the files of other formats do."""
        owners = _formats_of(self.export_path)
        if not owners or (len(targets) == 1 and targets[0].format in owners):
            return
        chosen = option(_FORMATS, self.formats) if self.formats else option(EXPORT_FORMATS.field, self.export_format)
        ending = f'its ending is the ending of {" and ".join(owners)}'
        if len(targets) > 1:
            raise OptionError(
                f'{option(_PATH, self.export_path)} is not allowed: several exports are written to a folder, and '
                f'{ending}. Give a folder, or a single format.'
            )
        raise OptionError(
            f'{option(_PATH, self.export_path)} contradicts {chosen}: {ending}. Give a path with another ending, or '
            f'{option(_FORMATS, owners[0])}.'
        )

    @property
    def _has_portable(self) -> bool:
        """Whether one of the exports is for another runtime."""
        return any(EXPORT_FORMATS.get(target.format).is_portable for target in self.targets)

    def _require_read_conversion(self) -> None:
        """Raises `OptionError` for a conversion option that is set and that none of the formats reads."""
        portable = tuple(record.name for record in EXPORT_FORMATS.records() if record.is_portable)
        chosen = {target.format for target in self.targets}
        for names, readers in ((_OF_PORTABLE, portable), (_OF_SERVED, (_SERVED,))):
            for name in names:
                value = getattr(self.conversion, name)
                require(
                    value == getattr(ConversionOptions, name) or not chosen.isdisjoint(readers),
                    f'ConversionOptions.{name}',
                    value,
                    f'it applies to {", ".join(readers)} only. Omit it, or set {option(_FORMATS)}={readers[-1]}',
                )

    def _check_variant(self, target: Target) -> None:
        """Raises `OptionError` unless a format has the variant and what it needs."""
        record = EXPORT_FORMATS.get(target.format)
        known = record.variants
        require(
            target.variant in known,
            _FORMATS,
            str(target),
            f'the variants of {target.format} are {", ".join(known)}',
        )
        require(
            record.open is not None or not (self.formats or record.is_portable),
            _FORMATS,
            target.format,
            'exports of this format cannot be opened for the comparison with the checkpoint (it registers no open). '
            f'Use {option("ExportOptions.export_format", target.format)}',
        )
        is_trained = target.format == 'tflite' and self.model.quantize_delay_step is not None
        if target.variant == 'int8' and self.proof.dataset_dir is None and not is_trained:
            raise OptionError(
                f'{option(_FORMATS, str(target))} needs images of the data set, from which the ranges of its '
                f'activations are measured. Set {option("ProofOptions.dataset_dir")}, and '
                f'{option("ConversionOptions.calibration_split", "train")} if another split is wanted.'
            )

    def _check_portable(self) -> None:
        """Raises `OptionError` for what the formats of other runtimes do not have."""
        if self.resize != ResizeOptions():
            raise OptionError(
                f'{option("ResizeOptions.min_value")} and {option("ResizeOptions.max_value")} apply to frozen_graph '
                f'and saved_model only: other formats take images of the size of the network. Omit them, and resize '
                'images before they reach the network.'
            )
        require(
            self.image_bits == 8 or self.conversion.input_type != 'uint8',
            'ConversionOptions.input_type',
            self.conversion.input_type,
            f'images have {self.image_bits} bits ({option("ExportOptions.image_bits")}). Use float32',
        )

    @property
    def targets(self) -> tuple[Target, ...]:
        """The exports to write."""
        if not self.formats:
            owners = _formats_of(self.export_path)
            name = self.export_format or (_USUAL if _USUAL in owners else (*owners, _USUAL)[0])
            return (Target(name, EXPORT_FORMATS.get(name).variants[0]),)
        found = []
        for text in self.formats:
            name, _, variant = text.partition(':')
            name = _SHORT_NAMES.get(name, name)
            require_choice(_FORMATS, name, EXPORT_FORMATS.names())
            found.append(Target(name, variant or EXPORT_FORMATS.get(name).variants[0]))
        return tuple(found)

    def parameters_of(self, format_name: str) -> dict[str, Any]:
        """Returns the values of the parameters of a format, by name."""
        return values_of(EXPORT_FORMATS.get(format_name), functools.partial(getattr, self))

    @property
    def format_parameters(self) -> dict[str, Any]:
        """Values of the parameters of the format without `formats`, by name."""
        return self.parameters_of(self.targets[0].format)


def _formats_of(path: str) -> tuple[str, ...]:
    """Returns the names of the formats to which the ending of a path belongs: the longest of several endings."""
    lengths = {
        record.name: max((len(each) for each in record.suffixes if path.lower().endswith(each)), default=0)
        for record in EXPORT_FORMATS.records()
    }
    longest = max(lengths.values())
    return tuple(name for name, length in lengths.items() if length and length == longest)


@dataclasses.dataclass(frozen=True)
class ConvertOptions:
    """Options of `deeplab convert_to_tflite`.

    Attributes:
      quantized_graph_def_path: frozen graph, with or without imitated 8-bit rounding.
      output_tflite_path: file to write.
      input_tensor_name: tensor of the normalized image; None for the one that exports have.
      output_tensor_name: tensor of the class ids.
      test_image_path: image on which both are compared; None for none.
    """

    quantized_graph_def_path: str
    output_tflite_path: str
    input_tensor_name: str | None = None
    output_tensor_name: str = 'ArgMax:0'
    test_image_path: str | None = None
