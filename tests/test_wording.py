"""How messages name options."""

import ast
import dataclasses
import pathlib
import re

import pytest

from deeplab import options, wording
from deeplab.options.parameters import parameters_of

SOURCES = sorted((pathlib.Path(__file__).parent.parent / 'deeplab').rglob('*.py'))


def _named_options():
    """Yields (file, line, name) of every literal such as 'ModelOptions.crop_size'."""
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text(encoding='utf-8'))):
            if isinstance(node, ast.Constant) and re.fullmatch(r'[A-Z]\w+Options\.\w+', str(node.value)):
                yield path.name, node.lineno, node.value


def _texts(path):
    """Yields the strings of a module, without docstrings."""
    tree = ast.parse(path.read_text(encoding='utf-8'))
    kinds = (ast.Module, ast.FunctionDef, ast.ClassDef)
    docstrings = {
        id(node.body[0].value) for node in ast.walk(tree) if isinstance(node, kinds) and ast.get_docstring(node)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node.value


def test_libraries_name_options_by_their_fields():
    """What remains are lines to paste in a shell: suggestions of the doctor, of presets, of descriptions."""
    package = SOURCES[0].parent
    above = ('cli', 'programs', 'overview.py', 'start.py')
    libraries = [path for path in SOURCES if path.relative_to(package).parts[0] not in above]
    texts = [
        f'{path.name}: {text}'
        for path in libraries
        for text in _texts(path)
        if re.search(r'(?<![\w-])--[a-z]\w+', text)
    ]
    assert len(texts) <= 25, '\n'.join(texts)


def test_a_flag_on_a_command_line_a_field_in_python():
    with wording.flag_names({'ModelOptions.crop_size': 'train_crop_size', 'TrainOptions.xla': 'xla'}):
        assert wording.option('ModelOptions.crop_size') == '--train_crop_size'
        assert wording.option('ModelOptions.crop_size', (5, 7)) == '--train_crop_size=5,7'
        assert wording.option('TrainOptions.xla', False) == '--xla=false'
        assert wording.option('ModelOptions.crop_size', None) == '--train_crop_size='
        assert wording.option('ModelOptions.multi_grid', (1, 2)) == 'multi_grid=(1, 2)'
        assert wording.option('TrainOptions.xla', 'my photos/a+0.5*b') == "--xla='my photos/a+0.5*b'"  # for a shell
        assert wording.option('TrainOptions.xla', 'a+0.5*b') == '--xla=a+0.5*b'
    assert wording.option('ModelOptions.crop_size', (5, 7)) == 'crop_size=(5, 7)'
    assert wording.option('ModelOptions.crop_size') == 'crop_size'


def test_names_end_with_their_block_even_after_an_error():
    with pytest.raises(KeyError), wording.flag_names({'ModelOptions.crop_size': 'crop_size'}):
        raise KeyError
    assert not wording.is_set_by_flag('ModelOptions.crop_size')


def test_every_option_that_a_message_names_is_a_field():
    fields = {
        f'{name}.{field.name}'
        for name, kind in vars(options).items()
        if isinstance(kind, type) and dataclasses.is_dataclass(kind)
        for field in [*dataclasses.fields(kind), *parameters_of(kind).values()]
    }
    wrong = [named for named in _named_options() if named[2] not in fields]
    assert not wrong


@pytest.mark.parametrize(
    ('value', 'near'),
    [
        ('resnet50', 'resnet_v1_50'),
        ('MobileNetV2', 'mobilenet_v2'),
        ('cityscape', 'cityscapes'),
        ('voc', 'pascal_voc_seg'),
        ('VOC2012', 'pascal_voc_seg'),
        ('overlays', 'overlay'),
        ('cosin', 'cosine'),
        ('resnet', 'resnet_v1_50 or resnet_v1_101'),
    ],
)
def test_a_value_that_is_near_a_name(value, near):
    names = ('resnet_v1_101', 'resnet_v1_50', 'mobilenet_v2', 'cityscapes', 'pascal_voc_seg', 'overlay', 'cosine')
    assert wording.did_you_mean(value, (*names, 'momentum')) == f'Did you mean {near}? '


def test_a_name_that_is_a_small_part_of_the_value_is_not_near():
    names = ('lenet', 'mobilenet_v2', 'mobilenet_v3_large')
    assert wording.did_you_mean('mobilenet_v9', names) == 'Did you mean mobilenet_v2? '
    assert wording.did_you_mean('mobilenet', names) == 'Did you mean mobilenet_v2 or mobilenet_v3_large? '
    assert wording.did_you_mean('lenet_5', names) == 'Did you mean lenet? '


def test_a_value_that_is_near_no_name():
    assert wording.did_you_mean('s', ('softmax', 'dice')) == ''
    assert wording.did_you_mean('', ('softmax', 'dice')) == ''
    assert wording.one_of('x', ('softmax', 'dice')) == 'it must be one of softmax, dice'
    assert wording.one_of('Dice', ('softmax', 'dice')) == 'did you mean dice? It must be one of softmax, dice'
