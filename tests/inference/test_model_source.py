"""The network of a checkpoint: from run.json, a preset, or its variables."""

import dataclasses
import json

import pytest

from deeplab import cli, common, wording
from deeplab.cli import to_options
from deeplab.cli.program import names_in_messages
from deeplab.errors import CheckpointError, OptionError
from deeplab.inference import model_source, predictor
from deeplab.options import DecoderOptions, ModelOptions
from deeplab.options.fields import declarations
from deeplab.zoo import catalog
from tests.helpers import checkpoint_files, predictor_setup

pytestmark = pytest.mark.usefixtures('tiny_network')


def found(path, changes=None, dataset=None):
    return model_source.find(str(path), changes or {}, dataset, model_source.of_run(str(path)))


def rewritten(training, folder, change):
    """A folder with another run.json."""
    content = json.loads((training / 'run.json').read_text())
    change(content['runs'][-1])
    (folder / 'run.json').write_text(json.dumps(content))
    return model_source.of_run(str(folder))


def test_run_json_describes_network_and_classes(training):
    for path in (training, training / 'model.ckpt-7', training / 'model.ckpt-7.index'):
        result = model_source.find(str(path), {}, None, model_source.of_run(str(training)))
        assert result.checkpoint == str(training / 'model.ckpt-7')
        assert result.options == dataclasses.replace(predictor_setup.MODEL, crop_size=None)
        assert (
            result.classes.names == tuple(predictor_setup.CLASSES)
            and result.classes.palette.tolist() == predictor_setup.COLORS
        )


def test_given_options_and_a_given_data_set_take_precedence(training, tmp_path):
    (tmp_path / 'other.json').write_text(json.dumps({'num_classes': 4, 'image_bits': 16}))
    changes = {'AsppOptions.filters': 16, 'ModelOptions.output_stride': 8, 'DecoderOptions.output_strides': (4,)}
    result = found(training, changes, str(tmp_path / 'other.json'))
    assert result.options.aspp == dataclasses.replace(predictor_setup.ASPP, filters=16)
    assert (result.options.output_stride, result.options.decoder) == (8, DecoderOptions((4,)))
    assert (result.classes.names, result.classes.image_bits) == (('0', '1', '2', '3'), 16)
    with pytest.raises(OptionError, match='4 classes.*21'):
        found(training, {}, 'pascal_voc_seg')


def test_one_network_stands_for_checkpoints_without_a_run_json(training, tmp_path, caplog):
    paths, used = [str(training), str(tmp_path)], predictor_setup.MODEL
    model_source.require_one_description(paths, '')
    assert 'no run.json' not in caplog.text
    model_source.require_one_description(paths, '', used=used)
    assert f"There is no run.json beside '{tmp_path}': the network of '{training}' is used" in caplog.text
    caplog.clear()
    given = {'ModelOptions.output_stride': 16, 'AsppOptions.rates': used.aspp.rates}  # nothing is left to assume
    model_source.require_one_description(paths, '', used=used, given=given)
    model_source.require_one_description(paths[::-1], '', used=used)
    with pytest.raises(OptionError, match='only the latter has a run.json: output_stride. Give others'):
        other = dataclasses.replace(used, output_stride=8)
        model_source.require_one_description(paths[::-1], 'Give others', used=other)
    assert 'no run.json' not in caplog.text


def test_a_run_json_runs_no_code(training, tmp_path):
    """It may have been downloaded with its checkpoint: modules that it names are not imported."""
    (tmp_path / 'evil.py').write_text('raise SystemExit')
    for name in ('evil.py', str(tmp_path / 'evil.py'), 'evil', 'os.path', 7, None, 'missing.json'):
        assert (
            rewritten(training, tmp_path, lambda run, name=name: run['options']['dataset'].update(name=name))[1] is None
        )


def test_a_run_json_of_a_plugin_s_network_or_without_sense(training, tmp_path):
    with pytest.raises(OptionError, match='mine.*plugin'):
        rewritten(training, tmp_path, lambda run: run['options']['model'].update(model_variant='mine'))
    for change in (
        lambda run: run.pop('options'),
        lambda run: run['options'].update(model=7),
        lambda run: run['options']['model'].update(output_stride='wide'),
        lambda run: run['options']['model']['aspp'].update(rates=[-1]),
    ):
        assert rewritten(training, tmp_path, change) is None
    known = rewritten(training, tmp_path, lambda run: run['options']['model'].update(of_the_future=1))
    assert known.options.aspp == predictor_setup.ASPP


def test_a_checkpoint_without_run_json_is_identified(training, monkeypatch, caplog):
    checkpoint_files.remember_networks(monkeypatch)
    caplog.set_level('INFO', 'absl')
    result = model_source.find(str(training), {})
    assert result.options.model_variant == 'tiny' and result.options.num_classes == 4
    assert result.options.aspp.filters == 8 and not result.options.aspp.image_level_feature
    assert '4 classes' in caplog.text and 'tiny' in caplog.text and 'output stride 16.' in caplog.text
    assert 'WARNING' in [record.levelname for record in caplog.records]  # Python programs do not see INFO
    assert result.classes.names == ('0', '1', '2', '3')


def test_only_what_is_assumed_is_named(tmp_path, monkeypatch, caplog):
    checkpoint_files.remember_networks(monkeypatch)
    caplog.set_level('INFO', 'absl')
    aspp = dataclasses.replace(predictor_setup.ASPP, rates=(1, 2))
    predictor_setup.write_training(tmp_path, dataclasses.replace(predictor_setup.MODEL, aspp=aspp), with_manifest=False)
    stride, rates = {'ModelOptions.output_stride': 8}, {'AsppOptions.rates': (3, 5)}
    for changes, assumed in (
        ({}, 'assumed: output stride 16 and atrous rates 6, 12.'),
        (stride, 'assumed: atrous rates 12, 24.'),
        (rates, 'assumed: output stride 16.'),
        ({**stride, **rates}, None),
    ):
        caplog.clear()
        model_source.find(str(tmp_path), changes)
        assert assumed in caplog.text if assumed else 'which are assumed' not in caplog.text
        assert ('rates=(3, 5)' in caplog.text) == ('AsppOptions.rates' in changes)
        assert 'feature map' not in caplog.text  # of the image for which the network is outlined
    nas = dataclasses.replace(predictor_setup.MODEL, model_variant='nas_pnasnet', aspp=aspp)
    assert 'assumed: atrous rates 1, 2.' in model_source._assumed(nas, {}, True)


def test_rates_that_stay_at_another_output_stride_are_a_warning(training, caplog):
    described = model_source.of_run(str(training))
    aspp = dataclasses.replace(described.options.aspp, rates=(6, 12))
    described = described._replace(options=dataclasses.replace(described.options, aspp=aspp))
    _, changes = predictor._sorted_out({'output_stride': 8, 'rates': (1, 2)})
    found = model_source.find(str(training), changes, None, described)
    assert found.options.aspp.rates == (1, 2) and 'field of view' not in caplog.text
    model_source.find(str(training), {'ModelOptions.output_stride': 8}, None, described)
    assert 'For the same field of view, use rates=(12, 24)' in caplog.text


def test_what_cannot_be_identified(tmp_path, monkeypatch):
    checkpoint_files.remember_networks(monkeypatch)
    checkpoint_files.write(tmp_path / 'model.ckpt-1', {'other': [1.0]})
    with pytest.raises(CheckpointError, match='cannot be identified.*model_variant'):
        found(tmp_path)
    with pytest.raises(CheckpointError, match='no folder and no checkpoint'):
        found(tmp_path / 'missing')
    (tmp_path / 'empty').mkdir()
    with pytest.raises(CheckpointError, match='no checkpoint'):
        found(tmp_path / 'empty')
    (tmp_path / 'graph.pb').write_bytes(b'')
    with pytest.raises(CheckpointError, match='export'):
        found(tmp_path / 'graph.pb')


def test_presets_give_the_networks_that_their_flags_give():
    for name, expected in to_options._preset_networks().items():
        known = model_source.of_preset(name)
        assert known.options == dataclasses.replace(expected, crop_size=None), name
        assert known.dataset == catalog.get(name).dataset
    assert model_source.of_preset('mobilenetv2_coco_voc_trainaug').resize.min_value is None
    at_8 = model_source.of_preset('xception65_coco_voc_trainaug', {'ModelOptions.output_stride': 8})
    assert (at_8.options.output_stride, at_8.options.aspp.rates) == (8, (12, 24, 36))
    own_rates = {'ModelOptions.output_stride': 8, 'AsppOptions.rates': (1, 2)}
    assert model_source.of_preset('xception65_coco_voc_trainaug', own_rates).options.aspp.rates == (1, 2)
    with pytest.raises(OptionError, match='backbone'):
        model_source.of_preset(next(n for n, p in catalog.all_presets().items() if p.is_backbone))


def test_every_flag_of_the_presets_is_an_option():
    """A preset that sets another flag needs the class of its option among `_PRESET_KINDS`."""
    known = {each.flag for kind in model_source._PRESET_KINDS for each in declarations(kind).values()} | {'dataset'}
    for name, preset in catalog.all_presets().items():
        if not preset.is_backbone:
            assert set(catalog.settings(preset, 'predict', {})) <= known, name


def test_changed_options():
    plain = ModelOptions({common.OUTPUT_TYPE: 3})
    assert model_source.changed(plain, {}) == plain
    assert model_source.changed(plain, {'NasOptions.stem_output_filters': 40}).nas.stem_output_filters == 40


def test_an_export_is_no_checkpoint(tmp_path):
    export = tmp_path / 'model.tflite'
    export.write_bytes(b'\x1c\0\0\0TFL3')
    with pytest.raises(CheckpointError, match=r'not a checkpoint: use Predictor\.from_export$'):
        model_source.checkpoint_at(str(export))
    with wording.flag_names(names_in_messages(cli.find_program('predict'))):
        with pytest.raises(CheckpointError, match=r'not a checkpoint: pass --export_path=.*model\.tflite$'):
            model_source.checkpoint_at(str(export))
