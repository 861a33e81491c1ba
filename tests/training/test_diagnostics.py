"""Warnings before the first step, and none for ordinary trainings."""

import dataclasses
import json

import numpy as np
import pytest

from deeplab import cli, train, wording
from deeplab.errors import DataError
from deeplab.options import CloneOptions, LearningRateOptions, LossOptions, OptimizerOptions
from deeplab.training import diagnostics, train_loop, train_run
from tests.helpers import dataset_files, training_setup

HOSTS = ('a:1', 'b:1')
LOGITS_ONLY = (
    '--decoder_output_stride=8 --decoder_use_sum_merge --decoder_output_is_logits --last_layers_contain_logits_only'
)


@pytest.fixture
def plain(tmp_path):
    data = training_setup.DatasetOptions('train', str(tmp_path), 'camvid')
    return dataclasses.replace(training_setup.options(data, tmp_path), optimizer=OptimizerOptions())


def test_a_log_folder_with_the_records(plain, tmp_path):
    assert not list(diagnostics.folders(dataclasses.replace(plain, train_logdir=str(tmp_path / 'log'))))
    (tmp_path / 'link').symlink_to(tmp_path)
    for folder in (str(tmp_path), f'{tmp_path}/link/'):
        (line,) = diagnostics.folders(dataclasses.replace(plain, train_logdir=folder))
        assert line.startswith(f"train_logdir='{folder}' is the folder of the records, too")


class TestBatchNorm:
    @pytest.mark.parametrize(
        ('changes', 'text'),
        [
            ({'batch_size': 4}, 'from 4 images, too few'),
            ({'batch_size': 16, 'clones': CloneOptions(num_clones=2)}, '8 images in each of 2 clones'),
            ({'batch_size': 16, 'accumulation_steps': 4}, '4 images per micro-batch (accumulation_steps=4), too few'),
            ({'batch_size': 24, 'accumulation_steps': 2}, None),
            ({'batch_size': 16, 'clones': CloneOptions(worker_hosts=HOSTS)}, '8 images in each of 2 workers, too few'),
            ({'batch_size': 16, 'clones': CloneOptions(num_clones=4, sync_batch_norm=True)}, None),
            ({'batch_size': 8, 'clones': CloneOptions(num_clones=4, sync_batch_norm=True)}, 'from 8 images, too few'),
            ({'batch_size': 12}, None),
            ({'batch_size': 4, 'fine_tune_batch_norm': False}, None),
            ({'batch_size': 4, 'initial_checkpoint': None}, None),
        ],
    )
    def test_few_images(self, plain, changes, text):
        found = list(diagnostics.batch_norm(dataclasses.replace(plain, **{'initial_checkpoint': 'a', **changes})))
        assert (text is None and not found) or text in found[0]

    @pytest.mark.parametrize(
        ('network', 'is_warned'),
        [
            ('--task=classification --model_variant=lenet', False),
            ('--task=classification --model_variant=cifarnet', False),
            ('--task=classification --model_variant=mobilenet_v2', True),
            ('--model_variant=mobilenet_v2', True),
        ],
    )
    def test_a_network_without_batch_norms_has_no_statistics(self, network, is_warned):
        line = f'--train_logdir=a --dataset_dir=b --tf_initial_checkpoint=a/model.ckpt --train_batch_size=4 {network}'
        assert bool([*diagnostics.batch_norm(cli.options_of('train', line.split()))]) == is_warned

    @pytest.mark.parametrize(
        ('changes', 'enough', 'sync'),
        [
            ({'clones': CloneOptions(num_clones=2)}, 24, ''),
            ({'clones': CloneOptions(num_clones=2, sync_batch_norm=True)}, 12, ''),
            ({'clones': CloneOptions(worker_hosts=HOSTS), 'batch_size': 12}, 24, 'sync_batch_norm=True, '),
            ({'clones': CloneOptions(num_clones=4), 'batch_size': 16, 'accumulation_steps': 2}, 96, ''),
            ({'clones': CloneOptions(num_clones=4), 'batch_size': 16, 'xla': True}, 48, ''),
        ],
    )
    def test_the_fix(self, plain, changes, enough, sync):
        """One of three; common statistics only if these are of enough images, and possible."""
        chosen = dataclasses.replace(plain, **{'initial_checkpoint': 'a', 'batch_size': 2, **changes})
        (line,) = diagnostics.batch_norm(chosen)
        assert line.endswith(f'Set {sync}fine_tune_batch_norm=False, or batch_size={enough} or more.')
        chosen = dataclasses.replace(chosen, batch_size=enough)
        assert not list(diagnostics.batch_norm(chosen))


class TestLearningRate:
    def found(self, plain, batch, **optimizer):
        optimizer = OptimizerOptions().changed(**optimizer)
        return list(diagnostics.learning_rate(dataclasses.replace(plain, batch_size=batch, optimizer=optimizer)))

    @pytest.mark.parametrize(('batch', 'rate'), [(16, 0.007), (8, 0.007), (4, 0.0001), (16, 0.0), (32, 0.028)])
    def test_rates_that_are_known_to_work(self, plain, batch, rate):
        assert self.found(plain, batch, learning_rate=LearningRateOptions(base=rate)) == []

    def test_a_rate_beyond_the_batch(self, plain):
        (line,) = self.found(plain, 2, learning_rate=LearningRateOptions(base=0.007))
        assert line.startswith('base=0.007 is 8 times the rate known to work with a batch size of 2: 0.00088')

    def test_adam(self, plain):
        base = LearningRateOptions(base=1.0)  # not adam's
        assert self.found(plain, 2, name='adam', adam_learning_rate=0.003, learning_rate=base) == []
        (line,) = self.found(plain, 2, name='adam', adam_learning_rate=0.02)
        assert 'adam_learning_rate=0.02' in line
        assert 'try 0.001' in line

    @pytest.mark.parametrize(('name', 'good', 'bad'), [('adamw', 0.003, 0.02), ('lamb', 0.01, 0.05), ('lars', 2, 1e-4)])
    def test_others(self, plain, name, good, bad):
        assert self.found(plain, 2, name=name, learning_rate=LearningRateOptions(base=good)) == []
        (line,) = self.found(plain, 2, name=name, learning_rate=LearningRateOptions(base=bad))
        assert line.startswith(f'base={bad} is ')
        assert name in line

    def test_an_optimizer_with_which_a_task_diverges(self, plain):
        panoptic = dataclasses.replace(plain, model=plain.model.changed(task='panoptic'))
        (line,) = self.found(panoptic, 4)
        assert line == "The losses of the task panoptic diverge with name='momentum'. Set name='adam'."
        assert self.found(panoptic, 4, name='adam') == []


class TestOrdinaryTrainings:
    """Command lines of the documentation and the benchmarks, on balanced classes."""

    @pytest.mark.parametrize(
        'line',
        [
            '--dataset=camvid --train_batch_size=8 --optimizer=adam --adam_learning_rate=0.001 --batch_norm_decay=0.99',
            '--train_batch_size=6 --optimizer=adam --adam_learning_rate=0.003 --batch_norm_decay=0.9',
            '--train_batch_size=16 --base_learning_rate=0.007 --tf_initial_checkpoint=a/model.ckpt',
            '--tf_initial_checkpoint=a/model.ckpt --fine_tune_batch_norm=false',
            '',
        ],
    )
    def test_they_hear_nothing(self, line):
        chosen = cli.options_of('train', ['--train_logdir=a', '--dataset_dir=b', *line.split()])
        assert not list(diagnostics.batch_norm(chosen))
        assert not list(diagnostics.learning_rate(chosen))
        assert not list(diagnostics.unused(chosen))


@pytest.mark.parametrize(
    ('line', 'found'),
    [
        (
            '--optimizer=adam --base_learning_rate=0.01 --slow_start_step=50 --decay_steps=9',
            'No effect with --optimizer=adam, whose learning rate is the constant --adam_learning_rate=0.001: '
            '--base_learning_rate=0.01, --slow_start_step=50, --decay_steps=9.0.',
        ),
        (
            '--adam_learning_rate=0.01',
            '--adam_learning_rate=0.01 has no effect with --optimizer=momentum: it applies to adam.',
        ),
        (
            '--decay_steps=9 --learning_policy=step',
            '--decay_steps=9.0 has no effect with --learning_policy=step: it applies to cosine, poly, polynomial.',
        ),
        (
            '--slow_start_learning_rate=0.1',
            '--slow_start_learning_rate=0.1 has no effect without --slow_start_step.',
        ),
        (
            '--hard_example_mining_step=9',
            '--hard_example_mining_step=9 has no effect without --top_k_percent_pixels.',
        ),
        ('--blur_probability=1', '--blur_probability=1.0 has no effect without --blur_sigma.'),
        (
            '--task=classification --model_variant=resnet_v1_18 --min_scale_factor=1 --min_resize_value=256',
            'No effect with --preprocessing_name=vgg, which chooses size and scale of the images: '
            '--min_scale_factor=1.0, --min_resize_value=256.',
        ),
        ('--task=classification --model_variant=resnet_v1_18', None),
        (
            '--fine_tune_batch_norm=false --batch_norm_decay=0.9',
            '--batch_norm_decay=0.9 has no effect with --fine_tune_batch_norm=false.',
        ),
        (
            '--fine_tune_batch_norm=false --sync_batch_norm',
            '--sync_batch_norm=true has no effect with --fine_tune_batch_norm=false.',
        ),
        (
            '--fine_tune_batch_norm=false --model_variant=nas_pnasnet --drop_path_keep_prob=0.5',
            '--drop_path_keep_prob=0.5 has no effect with --fine_tune_batch_norm=false.',
        ),
        ('--fine_tune_batch_norm=false --recipe=small_data', None),
        (
            f'{LOGITS_ONLY} --tf_initial_checkpoint=a --initialize_last_layer=false --last_layer_gradient_multiplier=9',
            'No effect with --last_layers_contain_logits_only=true and --decoder_output_is_logits=true, as there is no '
            'layer after the decoder: --initialize_last_layer=false, --last_layer_gradient_multiplier=9.0. Omit '
            '--last_layers_contain_logits_only=true to mean all layers after the backbone.',
        ),
        (LOGITS_ONLY, None),
        (
            '--optimizer=adamw --last_layer_gradient_multiplier=10',
            '--last_layer_gradient_multiplier=10.0 has almost no effect with --optimizer=adamw, which normalizes the '
            'gradients of each variable. Omit it, or set --optimizer=momentum; --trainable_scopes trains the last '
            'layers alone.',
        ),
        ('--optimizer=adamw --last_layer_gradient_multiplier=0', None),
        ('--optimizer=adamw --recipe=fine_tune --tf_initial_checkpoint=a', None),
        ('--last_layer_gradient_multiplier=10', None),
        (
            '--save_summaries_images --save_summaries_secs=0',
            '--save_summaries_images=true has no effect without --save_summaries_secs.',
        ),
        (
            '--save_summaries_miou --logger=',
            '--save_summaries_miou=true has no effect without a logger that takes summaries (--logger=).',
        ),
        ('--save_summaries_miou', None),
        (
            '--slow_start_learning_rate=0.1 --slow_start_step=9 --slow_start_burnin_type=minimum',
            '--slow_start_learning_rate=0.1 has no effect with --slow_start_burnin_type=minimum, which rises from 0.',
        ),
        ('--flip_probability=0 --recipe=small_data', None),
        (
            '--task=depth --rare_class_sampling=0.5',
            '--rare_class_sampling=0.5 has no effect with --network_task=depth, which reads no class ids.',
        ),
        ('--task=depth+semantic --rare_class_sampling=0.5', None),
        ('--blur_probability=1 --blur_sigma=2 --slow_start_learning_rate=0.1 --slow_start_step=9', None),
    ],
)
def test_flags_without_effect(line, found):
    chosen = cli.options_of('train', ['--train_logdir=a', '--dataset_dir=b', *line.split()])
    with wording.flag_names(cli.find_program('train').flag_names):
        assert list(diagnostics.unused(chosen)) == ([] if found is None else [found])


class TestDataAsUsersBringIt:
    """From records to the warning with its fix, through the whole program."""

    def train(self, tmp_path, masks, description, caplog, **changes):
        """Trains one step on these masks; returns the warnings."""
        records = [
            dataset_files.record(seed, *mask.shape[:2], label=dataset_files.png(mask.astype(np.uint8)))
            for seed, mask in enumerate(masks)
        ]
        dataset_files.write_split(tmp_path / 'records', 'train', [records])
        (tmp_path / 'own.json').write_text(json.dumps(description))
        data = training_setup.DatasetOptions('train', str(tmp_path / 'records'), str(tmp_path / 'own.json'))
        chosen = training_setup.options(data, tmp_path / 'log', 1, optimizer=OptimizerOptions(), **changes)
        outputs = {'semantic': description['num_classes']}
        chosen = dataclasses.replace(chosen, model=dataclasses.replace(chosen.model, outputs_to_num_classes=outputs))
        caplog.clear()
        train.run(chosen)
        return [record.getMessage() for record in caplog.records if record.levelname == 'WARNING']

    def test_it_all(self, tmp_path, tiny_network, monkeypatch, caplog):
        """Masks 0/255, half fixed, with background as ignored, RGB, valid: each message leads to the next step."""
        ended = train_loop.TrainResult(1, None, 0.0, None)  # all is said before the graph is built
        monkeypatch.setattr(train_run, '_train', lambda *arguments: ended)
        objects = np.zeros((20, 40), np.uint8)
        objects[5:8, 5:15] = 255
        masks = [objects, np.roll(objects, 3, axis=1), np.zeros_like(objects)]

        (line,) = self.train(tmp_path / 'a', masks, {'num_classes': 2}, caplog)
        assert 'contain only the ids 0 and 255' in line
        assert 'Write 1 for the object (mask // 255)' in line

        with pytest.raises(
            DataError, match=r'id 255 on 30 pixels.* Fix the masks, .*: write 1 for the object \(mask // 255\)'
        ):
            self.train(tmp_path / 'b', masks, {'num_classes': 2, 'ignore_label': 0}, caplog)

        ones = [mask // 255 for mask in masks]
        lines = self.train(tmp_path / 'c', ones, {'num_classes': 2, 'ignore_label': 0}, caplog)
        assert 'set ignore_label to 255 in the description' in lines[0]
        assert 'is ignored: the network learns nothing about them' in lines[1]

        colors = [np.stack([mask] * 3, axis=2) for mask in masks]
        with pytest.raises(DataError, match=r'have a mask in color \(RGB\).*Map each color to its id'):
            self.train(tmp_path / 'd', colors, {'num_classes': 2}, caplog)

        (line,) = self.train(tmp_path / 'e', ones, {'num_classes': 2}, caplog)
        assert "Class '0' has 97.5% of the labeled pixels" in line

        weighed = LossOptions(label_weights=(1.0, 20.0))
        assert self.train(tmp_path / 'f', ones, {'num_classes': 2}, caplog, loss=weighed) == []

    def test_a_fine_tuning_that_is_probably_unintended(self, tmp_path, tiny_network, caplog):
        even = [dataset_files.ids(20, 40, classes=2, seed=seed) for seed in range(2)]
        assert self.train(tmp_path / 'a', even, {'num_classes': 2}, caplog) == []
        path = str(tmp_path / 'a' / 'log' / 'model.ckpt-1')
        three = [dataset_files.ids(20, 40, classes=3, seed=seed) for seed in range(2)]
        lines = self.train(tmp_path / 'b', three, {'num_classes': 3}, caplog, initial_checkpoint=path)
        assert lines[0].startswith('fine_tune_batch_norm=True computes batch statistics from 2 images')
        assert 'the initial checkpoint has 2 classes, the data set 3' in lines[1]
        again = self.train(tmp_path / 'b', three, {'num_classes': 3}, caplog, initial_checkpoint=path)
        assert again == []  # nothing is left to train, nothing is said twice
