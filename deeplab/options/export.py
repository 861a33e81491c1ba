"""Options of `deeplab export_model`: formats, conversion, and the proof of an export."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

from deeplab.errors import OptionError
from deeplab.options.data import ResizeOptions
from deeplab.options.fields import LocalPath, Options, PathText, declared
from deeplab.options.inference import NAMED_CLASSES, USE_MOVING_AVERAGE, PredictionOptions
from deeplab.options.network import ModelOptions
from deeplab.options.parameters import OptionsWithSettings, Settings, require_applicable
from deeplab.options.rules import require
from deeplab.registry import EXPORT_FORMATS
from deeplab.registry.records import check_allowed
from deeplab.wording import option

OUTPUTS = ('labels', 'probabilities')
_SHORT_NAMES = {'frozen': 'frozen_graph'}
_FORMATS, _PATH = 'ExportOptions.formats', 'ExportOptions.export_path'
_USUAL = 'frozen_graph'
_SERVED = 'saved_model'
# Conversion options that only formats of other runtimes read, and those that only the format of a server reads.
_OF_PORTABLE = ('input_type', 'outputs', 'is_resizable')
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
class ConversionOptions(Options):
    """How a network is converted to the format of another runtime."""

    input_type: str = declared(
        'float32',
        'Data type of the input images (values 0 to 255) of tflite, onnx and openvino.',
        choices=('float32', 'uint8'),
    )
    outputs: str = declared(
        'labels',
        'Outputs of tflite, onnx and openvino: labels alone, which is faster, or labels and probabilities. Tasks '
        'other than semantic have labels and the maps of all outputs.',
        choices=OUTPUTS,
    )
    is_resizable: bool = declared(
        False,
        'Accept images of any size, instead of {ModelOptions.crop_size} only.',
        flag='resizable',
    )
    has_dynamic_batch: bool = declared(
        False,
        'Accept batches of any number of images of the same size, instead of 1.',
        flag='dynamic_batch',
    )
    calibration_split: str = declared(
        'train',
        'Split whose images determine the ranges of 8-bit activations, for the variant int8.',
    )
    calibration_images: int = declared(
        100, 'Number of images of {calibration_split} to use, evenly spaced.', range='(0, inf)'
    )
    serving_version: int | None = declared(
        None,
        'Write saved_model in the layout of TensorFlow Serving, to {ExportOptions.export_path}/VERSION. Not set: to '
        '{ExportOptions.export_path} itself.',
        range='(0, inf)',
    )
    has_warmup: bool = declared(
        False,
        'Add a warmup request for TensorFlow Serving to saved_model.',
        flag='serving_warmup',
    )


@dataclasses.dataclass(frozen=True)
class ProofOptions(Options):
    """How an export is compared with its checkpoint before it is put in place."""

    dataset: PathText | None = declared(None, NAMED_CLASSES)
    dataset_dir: PathText | None = declared(
        None, 'Folder of the records, for samples, calibration and verification. Not set: samples are generated.'
    )
    verify_split: str | None = declared(
        None,
        'Split on which the mean IoU of the checkpoint and the export, and the metrics of other tasks, are measured. '
        'Not set: none.',
        needs=('dataset_dir',),
    )
    sample_images: int = declared(
        4,
        'Number of images on which labels and probabilities are compared.',
        range='(0, inf)',
    )
    max_miou_loss: float | None = declared(
        None,
        "Largest allowed loss of mean IoU, 0 to 1, or of another task's metric, on {verify_split}; an export that "
        'loses more is not written. Not set: no limit.',
        needs=('verify_split',),
        range='[0, inf)',
    )


def _formats_meaning() -> str:
    formats = '; '.join(
        f'{record.name} ({", ".join(record.variants)})' if len(record.variants) > 1 else record.name
        for record in EXPORT_FORMATS.records()
    )
    return (
        f'Formats to write, each FORMAT or FORMAT:VARIANT, comma-separated or repeated: {formats}. Each export gets '
        'metadata, is compared with the checkpoint and measured; several exports are written to the folder '
        '{ExportOptions.export_path}. Not set: {ExportOptions.export_format}.'
    )


@dataclasses.dataclass(frozen=True)
class ExportOptions(OptionsWithSettings, registries=(EXPORT_FORMATS,)):
    """Options of `deeplab export_model`.

    `settings` has the parameters of all export formats.

    Attributes:
      model: the network; its crop size is the largest image that the export accepts.
      resize: resizing of the image before the network; predictions have the size of the original image.
    """

    model: ModelOptions
    checkpoint_path: PathText = declared(
        meaning='The checkpoint, such as logs/train/model.ckpt-30000 (without .index), or a folder, whose newest '
        'checkpoint is used.'
    )
    export_path: LocalPath = declared(
        meaning='File to write, or folder for a format that is a folder, such as saved_model. The extensions .pb, '
        '.tflite, .onnx and .xml (openvino) select the format.'
    )
    resize: ResizeOptions = ResizeOptions()
    prediction: PredictionOptions = PredictionOptions()
    export_format: str | None = declared(
        None,
        lambda: (
            f'{EXPORT_FORMATS.summaries()} Not set: by the extension of {{ExportOptions.export_path}}, otherwise '
            'frozen_graph.'
        ),
        choices=EXPORT_FORMATS.names,
    )
    save_inference_graph: bool = declared(
        False,
        'Also write the graph with its variables as text, to inference_graph.pbtxt beside the export.',
    )
    use_moving_average: bool | None = declared(None, USE_MOVING_AVERAGE)
    image_bits: int = declared(
        8,
        'Bits per channel of the images that the network was trained on, 8 or 16; with 16, the export accepts uint16 '
        'images.',
    )
    settings: Settings = ()
    formats: tuple[str, ...] = declared((), _formats_meaning, flag='format', kind='repeated string')
    conversion: ConversionOptions = ConversionOptions()
    proof: ProofOptions = ProofOptions()

    def __post_init__(self) -> None:
        super().__post_init__()
        targets = self.targets
        require_applicable(self, EXPORT_FORMATS, tuple(target.format for target in targets))
        for target in targets:
            self._check_variant(target)
        self._require(len(set(targets)) == len(targets), 'formats', 'each one may be named once only')
        self._require(self.image_bits in (8, 16), 'image_bits', 'it must be 8 or 16')
        has_size = self.model.crop_size is not None
        self.model._require(has_size, 'crop_size', 'an export needs height and width, such as 513,513')
        self._require_read_conversion()
        if self._has_portable:
            self._check_portable()
        self.proof._require(
            self.proof.verify_split is None or bool(self.formats) or self._has_portable,
            'verify_split',
            f'only exports that {option(_FORMATS)} names are evaluated. Set {option(_FORMATS, targets[0].format)}',
        )
        self._require_ending(targets)
        self.proof._require(
            self.proof.verify_split is None or self.resize == ResizeOptions(),
            'verify_split',
            f'the export resizes images itself ({option("ResizeOptions.min_value")}). Omit one of both, and evaluate '
            'the export with eval',
        )

    def _require_ending(self, targets: tuple[Target, ...]) -> None:
        """Raises `OptionError` if the path ends as the files of other formats do."""
        owners = _formats_of(self.export_path)
        if not owners or (len(targets) == 1 and targets[0].format in owners):
            return
        chosen = option(_FORMATS, self.formats) if self.formats else option(EXPORT_FORMATS.field, self.export_format)
        ending = f'its extension belongs to {" and ".join(owners)}'
        if len(targets) > 1:
            raise OptionError(
                f'{option(_PATH, self.export_path)} is not allowed: several exports are written to a folder, and '
                f'{ending}. Use a folder, or a single format.'
            )
        raise OptionError(
            f'{option(_PATH, self.export_path)} contradicts {chosen}: {ending}. Use a path with another extension, or '
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
                is_default = getattr(self.conversion, name) == getattr(ConversionOptions, name)
                rule = f'it applies to {", ".join(readers)} only. Omit it, or set {option(_FORMATS)}={readers[-1]}'
                self.conversion._require(is_default or not chosen.isdisjoint(readers), name, rule)

    def _check_variant(self, target: Target) -> None:
        """Raises `OptionError` unless a format has the variant and what it needs."""
        record = EXPORT_FORMATS.get(target.format)
        variants = record.variants
        require(
            target.variant in variants,
            _FORMATS,
            str(target),
            f'the variants of {target.format} are {", ".join(variants)}',
        )
        require(
            record.open is not None or not (self.formats or record.is_portable or not self.model.is_semantic),
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
        pooling = self.model.image_pooling_crop_size
        window = option('ModelOptions.image_pooling_crop_size', pooling)
        rule = f'the network pools windows of a fixed size ({window}). Omit {option("ConversionOptions.is_resizable")}'
        self.conversion._require(pooling is None or not self.conversion.is_resizable, 'is_resizable', rule)
        rule = f'images have {self.image_bits} bits ({option("ExportOptions.image_bits")}). Use float32'
        self.conversion._require(self.image_bits == 8 or self.conversion.input_type != 'uint8', 'input_type', rule)

    @property
    def targets(self) -> tuple[Target, ...]:
        """The exports to write."""
        if not self.formats:
            owners = _formats_of(self.export_path)
            name = self.export_format or (_USUAL if _USUAL in owners else (*owners, _USUAL)[0])
            return (Target(name, EXPORT_FORMATS.get(name).variants[0]),)
        targets = []
        for text in self.formats:
            name, _, variant = text.partition(':')
            name = _SHORT_NAMES.get(name, name)
            check_allowed(name, _FORMATS, name, choices=EXPORT_FORMATS.names())
            targets.append(Target(name, variant or EXPORT_FORMATS.get(name).variants[0]))
        return tuple(targets)


def _formats_of(path: str) -> tuple[str, ...]:
    """Returns the names of the formats to which the ending of a path belongs: the longest of several endings."""
    lengths = {
        record.name: max((len(each) for each in record.suffixes if path.lower().endswith(each)), default=0)
        for record in EXPORT_FORMATS.records()
    }
    longest = max(lengths.values())
    return tuple(name for name, length in lengths.items() if length and length == longest)


@dataclasses.dataclass(frozen=True)
class ConvertOptions(Options):
    """Options of `deeplab convert_to_tflite`."""

    quantized_graph_def_path: PathText = declared(
        meaning='Frozen graph written by export_model; one from 8-bit training yields an 8-bit model.'
    )
    output_tflite_path: LocalPath = declared(meaning='File to write.')
    input_tensor_name: str | None = declared(
        None,
        'Tensor of the normalized image. Not set: SCOPE/SCOPE/input:0, as in exports.',
    )
    output_tensor_name: str = declared('ArgMax:0', 'Tensor of the class ids.')
    test_image_path: PathText | None = declared(
        None, 'Image on which the labels of the graph and the model are compared. Not set: none.'
    )


@dataclasses.dataclass(frozen=True)
class InferenceGraphOptions(Options):
    """Options of `deeplab export_inference_graph`.

    Attributes:
      model: the classifier; its crop size is set.
      output_file: file to write.
      batch_size: images of a batch; None for any number.
      is_training: whether the graph has dropout and statistics of batches.
      is_text: whether the file is text.
    """

    model: ModelOptions
    output_file: str
    batch_size: int | None = None
    is_training: bool = False
    is_text: bool = False
