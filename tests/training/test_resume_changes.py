"""The warning of a resumed run about options that have changed."""

import dataclasses

import pytest

from deeplab import cli, options, wording
from deeplab.cli.program import names_in_messages
from deeplab.options import CloneOptions, LearningRateOptions, OptimizerOptions
from deeplab.training import resume_changes, run_manifest
from tests.helpers import training_setup

pytestmark = pytest.mark.usefixtures('tiny_network')

DATA = options.DatasetOptions('train', 'records', 'records/tiny.json')
RECORDS = {'digest': 'sha256:a', 'shards': {'train-0': 10, 'train-1': 20}, 'split': 'train', 'images': 7}
WEIGHTS = [0.5] * 150


def run_of(chosen, first_step=0, **records):
    facts = {**RECORDS, 'split': chosen.dataset.split, **records}
    return {'first_step': first_step, 'options': run_manifest.options_as_json(chosen), 'records': facts}


def warning(old, new, step=4, **records):
    """The warning of a run with the options `new` that resumes at a step of one with the options `old`."""
    with wording.flag_names(names_in_messages(cli.find_program('train'))):
        return resume_changes.warning([run_of(old)], run_of(new, step, **records), new)


@pytest.fixture
def plain():
    return training_setup.options(DATA, 'log', 6)


def test_a_new_run_and_the_same_command_are_silent(plain):
    assert resume_changes.warning([], run_of(plain), plain) is None
    assert warning(plain, dataclasses.replace(plain, seed=1), step=0) is None
    assert resume_changes.warning([{'first_step': 0, 'command': []}], run_of(plain, 4), plain) is None
    moved = dataclasses.replace(DATA, directory='/there', name='/there/tiny.json', skip_corrupt_records=True)
    later = dataclasses.replace(
        plain, dataset=moved, train_logdir='/log', log_steps=9, on_nan='skip', initial_checkpoint='model.ckpt'
    )
    assert warning(plain, later) is None


def test_all_changes_are_in_one_warning(plain):
    changed = dataclasses.replace(
        plain,
        batch_size=4,
        seed=5,
        clones=CloneOptions(num_replicas=2, num_ps_tasks=1, master='grpc://here:1'),
        model=dataclasses.replace(plain.model, crop_size=(33, 33), outputs_to_num_classes={'semantic': 5}),
        loss=options.LossOptions(formula='softmax+dice', label_weights=tuple(WEIGHTS)),
        optimizer=OptimizerOptions(settings={'momentum': 0.5}, learning_rate=LearningRateOptions('cosine', 0.05)),
    )
    found = warning(plain, changed)
    for part in (
        'at step 4',
        '--train_batch_size: 2 -> 4;',
        '--seed: 3 -> 5.',
        '--num_replicas: 1 -> 2;',
        '--train_crop_size: 17,33 -> 33,33;',
        f'number of classes: {plain.model.num_classes} -> 5;',
        '--label_weights: not set -> 0.5,0.5,',
        '--loss: softmax -> softmax+dice;',
        '--learning_policy: poly -> cosine;',
        '--momentum: 0.9 -> 0.5;',
        'changes with --num_replicas, --train_batch_size, --seed: ',
    ):
        assert part in found
    assert 'master' not in found and 'schedule' not in found
    assert len(found) < 900


@pytest.mark.parametrize(
    ('records', 'part'),
    [
        ({'digest': 'sha256:b'}, 'records of split train: 7 images -> 7 other images.'),
        ({'images': 6}, 'records of split train: 7 images -> 6 images.'),
        ({'shards': {'train-0': 30}}, 'shards of the records of split train: 2 -> 1.'),
        ({'digest': None}, ''),
    ],
)
def test_records(plain, records, part):
    found = warning(plain, plain, **records)
    assert part in found and 'order of the images' in found if part else found is None


def test_the_number_of_steps_counts_where_the_learning_rate_follows_it(plain):
    def longer(policy, **changes):
        optimizer = OptimizerOptions(learning_rate=LearningRateOptions(policy).changed(**changes))
        chosen = dataclasses.replace(plain, optimizer=optimizer)
        return warning(chosen, dataclasses.replace(chosen, number_of_steps=60))

    found = longer('poly')
    assert '--training_number_of_steps: 6 -> 60. ' in found
    assert 'schedule for 60 steps' in found and 'order of the images' not in found
    assert longer('step') is None and longer('poly', decay_steps=9.0) is None


@pytest.mark.parametrize(('ramp_steps', 'is_warned'), [(None, True), (3, False)])
def test_the_number_of_steps_counts_for_the_weight_of_images_without_labels(plain, ramp_steps, is_warned):
    optimizer = OptimizerOptions(learning_rate=LearningRateOptions('step'))
    unlabeled = options.UnlabeledOptions('photos', magnitude=0.2, ramp_steps=ramp_steps)
    chosen = dataclasses.replace(plain, optimizer=optimizer, unlabeled=unlabeled)
    found = warning(chosen, dataclasses.replace(chosen, number_of_steps=60))
    assert bool(found) == is_warned
    if found:
        assert 'The weight of the images without labels now follows a schedule for 60 steps' in found
        assert 'learning rate' not in found


@pytest.mark.parametrize('fine_tune_batch_norm', [True, False])
def test_the_number_of_steps_counts_for_drop_path_where_it_drops(plain, fine_tune_batch_norm):
    chosen = dataclasses.replace(
        plain,
        optimizer=OptimizerOptions(learning_rate=LearningRateOptions('step')),
        model=dataclasses.replace(plain.model, nas=options.NasOptions(drop_path_keep_prob=0.5)),
        fine_tune_batch_norm=fine_tune_batch_norm,
    )
    found = warning(chosen, dataclasses.replace(chosen, number_of_steps=60))
    assert ('The drop path now follows a schedule for 60 steps' in (found or '')) == fine_tune_batch_norm


def test_weights_of_a_checkpoint_of_step_0(plain):
    """Only settings that the weights follow from are named, as this run begins anew in all else."""
    same = dataclasses.replace(plain, batch_size=4)
    assert resume_changes.warning_of_weights([run_of(plain)], run_of(same), same, 'log/model.ckpt-0') is None
    assert resume_changes.warning_of_weights([], run_of(same), same, 'log/model.ckpt-0') is None
    changed = dataclasses.replace(
        same,
        seed=5,
        initial_checkpoint='other.ckpt',
        initialize_last_layer=False,
        restore=options.RestoreOptions(('logits',)),
    )
    found = resume_changes.warning_of_weights([run_of(plain)], run_of(changed), changed, 'log/model.ckpt-0')
    for part in (
        'begins with the weights of log/model.ckpt-0,',
        'seed: 3 -> 5',
        'initial_checkpoint: not set -> other.ckpt',
        'initialize_last_layer: true -> false',
        'exclude_scopes: not set -> logits',
    ):
        assert part in found
    assert 'batch_size' not in found


def test_it_is_about_the_run_that_wrote_the_checkpoint(plain):
    """Not about one that was stopped before it wrote another."""
    other = dataclasses.replace(plain, seed=9)
    runs = [run_of(plain), run_of(other, 4)]
    assert resume_changes.warning(runs, run_of(plain, 4), plain) is None
    assert 'seed: 9 -> 3' in resume_changes.warning(runs, run_of(plain, 5), plain)


def test_every_name_is_that_of_an_option():
    for field in resume_changes.WITHOUT_EFFECT | resume_changes.ORDER | resume_changes.FILES | {resume_changes.STEPS}:
        kind, _, name = field.partition('.')
        assert name in {each.name for each in dataclasses.fields(getattr(options, kind))}
