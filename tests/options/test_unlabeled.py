"""Options of images without labels: allowed values, and what they do not combine with."""

import pytest

from deeplab.errors import OptionError
from deeplab.options import CloneOptions, DatasetOptions, ModelOptions, TrainOptions, UnlabeledOptions

ON = UnlabeledOptions('photos', augmentations='colors')
DATA = DatasetOptions('train', 'records')


def options(unlabeled=ON, model=None, **changes):
    model = model or ModelOptions({'semantic': 3}, crop_size=(17, 33))
    return TrainOptions(model, DATA, 'logs', unlabeled=unlabeled, **changes)


def test_images_per_step():
    assert options(batch_size=6).unlabeled_batch_size == 6
    made = options(
        UnlabeledOptions('photos', 8, magnitude=0.1),
        batch_size=4,
        accumulation_steps=2,
        clones=CloneOptions(num_clones=2),
    )
    assert (made.unlabeled_batch_size, made.unlabeled_clone_batch_size) == (8, 2)
    assert not UnlabeledOptions().is_on


@pytest.mark.parametrize(
    ('values', 'parts'),
    [
        ({'weight': 2.0}, ('weight=2.0', 'directory')),
        ({'directory': 'photos', 'confidence': 1.0}, ('confidence=1.0', 'less than 1')),
        ({'directory': 'photos', 'augmentations': 'colors,rotation'}, ("'rotation'", 'in its place', 'gaussian_noise')),
        ({'directory': 'photos', 'augmentations': 'colors,blurr'}, ("'blurr'", 'Did you mean blur')),
        ({'directory': 'photos', 'augmentations': 'blur,blur'}, ("'blur' appears twice",)),
    ],
)
def test_bad_values(values, parts):
    with pytest.raises(OptionError) as error:
        UnlabeledOptions(**values)
    assert not [part for part in parts if part not in str(error.value)], str(error.value)


@pytest.mark.parametrize(
    ('changes', 'part'),
    [
        ({'model': ModelOptions({'depth': 1}, crop_size=(17, 33), task='depth')}, "task='depth'"),
        ({'model': ModelOptions({'semantic': 3}, crop_size=(17, 33), quantize_delay_step=0)}, 'quantize_delay_step'),
        ({'clones': CloneOptions(master='grpc://here:1')}, 'master'),
        ({'clones': CloneOptions(worker_hosts=('a:1', 'b:1'))}, 'worker_hosts'),
        ({'clones': CloneOptions(num_clones=2, sync_batch_norm=True)}, 'sync_batch_norm'),
    ],
)
def test_what_is_refused(changes, part):
    with pytest.raises(OptionError) as error:
        options(**changes)
    assert part in str(error.value) and "directory='photos'" in str(error.value)


def test_augmentations_that_do_not_fit_the_crop():
    with pytest.raises(OptionError) as error:
        options(UnlabeledOptions('photos'), ModelOptions({'semantic': 3}, crop_size=(33, 65)))
    assert 'cutout_size=64' in str(error.value) and 'augmentations or magnitude' in str(error.value)


def test_parts_of_a_batch():
    with pytest.raises(OptionError) as error:
        options(UnlabeledOptions('photos', 6, magnitude=0.1), accumulation_steps=4)
    assert 'batch_size=6' in str(error.value) and 'a multiple of 4' in str(error.value)
