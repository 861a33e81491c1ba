"""Warnings about the masks of a split, and none for ordinary masks."""

import numpy as np
import pytest

from deeplab.datasets import build_data, label_checks
from deeplab.datasets.descriptor import DatasetDescriptor, load
from deeplab.options import LossOptions

NAMES = ['background', 'road', 'tree', 'car']
PLAIN = LossOptions()


def findings(pixels, ignored=0, ignore_label=255, loss=PLAIN, names=NAMES, validates=False, is_meant=False):
    descriptor = DatasetDescriptor(
        'own', len(pixels), ignore_label, class_names=names[: len(pixels)], ignore_label_is_class=is_meant
    )
    if validates:
        return label_checks.validation_labels(descriptor, np.array(pixels), ignored, 'val')
    return label_checks.labels(descriptor, np.array(pixels), ignored, 8, 'train', loss)


class TestLabels:
    def test_even_classes_need_no_word(self):
        assert findings([500, 300, 190, 10], ignored=8000) == []
        assert findings([9400, 500, 50, 50]) == []
        assert findings([0, 500, 300, 200], ignored=90, ignore_label=0, is_meant=True) == []  # as in ADE20K

    def test_a_data_set_of_one_class(self):
        """Softmax over one class is 1, so no loss changes a weight."""
        for ignored in (0, 9900):
            (line,) = findings([100], ignored=ignored, names=['all'])
            assert line.startswith('The data set has one class (num_classes: 1)')
            assert 'set num_classes to 2 in the description of the data set, with masks of 0 (background) and 1' in line
        assert findings([0], ignored=10, names=['all']) == [line]

    def test_a_class_that_never_occurs(self):
        (line,) = findings([500, 0, 400, 0])
        assert line == (
            "2 of 4 classes never occur in the 8 images of split 'train': 'road' (id 1), 'car' (id 3). The network "
            'cannot learn them. Check num_classes in the description of the data set.'
        )

    def test_ids_that_begin_with_1(self):
        (line,) = findings([0, 300, 300, 300])
        assert line.endswith('If the ids of the masks start at 1, subtract 1 and build the records again.')

    def test_a_rare_class(self):
        (line,) = findings([50_000, 49_992, 8])
        assert line == (
            "1 classes have less than 0.01% of the labeled pixels of split 'train': 'tree' (0.0080%). "
            'Set auto_label_weights=True to increase the weight of rare classes.'
        )

    def test_a_class_that_is_nearly_everything(self):
        (line,) = findings([9600, 200, 200])
        assert line.startswith("Class 'background' has 96.0% of the labeled pixels of split 'train'")
        assert 'auto_label_weights=True' in line
        assert "formula='softmax+dice'" in line

    @pytest.mark.parametrize(
        'loss',
        [
            LossOptions(label_weights=(1.0, 9.0, 9.0)),
            LossOptions(auto_label_weights=True),
            LossOptions(formula='softmax+dice'),
        ],
    )
    def test_who_has_taken_care_hears_nothing(self, loss):
        assert findings([99_990, 8, 2], loss=loss) == []

    def test_pixels_that_are_ignored(self):
        (line,) = findings([40, 30, 20], ignored=910)
        assert line.startswith("91.0% of the pixels of split 'train' have the id 255, which is ignored")
        assert 'a class of its own' in line
        (line,) = findings([0, 0], ignored=10)
        assert line.startswith(
            "Every pixel of split 'train' has the id 255, which is ignored: there is nothing to learn"
        )

    def test_masks_of_0_and_255(self):
        (line,) = findings([900, 0], ignored=100)
        assert line == (
            "The masks of split 'train' contain only the ids 0 and 255, and 255 is ignored: the object class is "
            'ignored, and the network learns to predict 0 everywhere. Write 1 for the object (mask // 255) and build '
            'the records again.'
        )

    def test_background_that_is_ignored(self):
        (line,) = findings([0, 300], ignored=700, ignore_label=0)
        assert "only 'road' (id 1) occurs" in line
        assert 'set ignore_label to 255 in the description of the data set' in line

    def test_one_class_alone(self):
        (line,) = findings([0, 300, 0], ignored=7)
        assert line.endswith('Class ids are 0 to 2; fix the masks and build the records again.')
        (line,) = findings([0, 300, 0])
        assert 'ignored' not in line

    def test_background_written_as_255(self):
        (line,) = findings([0, 300], ignored=700)
        assert line == (
            "Of 2 classes only 'road' (id 1) occurs in split 'train': the network learns to predict 1 everywhere. "
            '70.0% of the pixels have the id 255, which is ignored: if they are background, write 0 instead. Class ids '
            'are 0 to 1; fix the masks and build the records again.'
        )


class TestLabelsOfAValidation:
    def found(self, pixels, **keywords):
        return findings(pixels, validates=True, **keywords)

    def test_rare_frequent_and_missing_classes_are_no_matter(self):
        assert self.found([99_990, 9, 0, 1]) == []
        assert self.found([0, 10, 90], ignored=800) == []
        assert self.found([100], ignored=9900) == []  # one class is spoken of once

    def test_masks_of_0_and_255(self):
        (line,) = self.found([900, 0], ignored=100)
        assert line == (
            "The masks of split 'val' contain only the ids 0 and 255, and 255 is ignored: the object class is ignored, "
            'and a network that predicts 0 everywhere has an mIoU of 1. Write 1 for the object (mask // 255) and build '
            'the records again.'
        )

    def test_one_class_alone(self):
        (line,) = self.found([0, 300, 0])
        assert line.startswith(
            "Of 3 classes only 'road' (id 1) occurs in split 'val': a network that predicts 1 everywhere has an mIoU of"
        )

    def test_pixels_that_are_ignored(self):
        (line,) = self.found([40, 30, 20], ignored=910)
        assert line.startswith(
            "91.0% of the pixels of split 'val' have the id 255, which is ignored: they are excluded from the metrics"
        )
        (line,) = self.found([0, 0], ignored=10)
        assert line.startswith("Every pixel of split 'val' has the id 255, which is ignored: there is nothing to measu")


class TestAnIgnoredClass:
    def test_it_is_named_unless_it_is_meant(self):
        (line,) = findings([500, 0, 300, 200], ignored=90, ignore_label=1)
        for part in ('ignore_label is 1', "'road'", '"ignore_label_is_class": true'):
            assert part in line
        assert findings([500, 0, 300, 200], ignored=90, ignore_label=1, is_meant=True) == []
        assert label_checks.ignored_class(load('ade20k')) == []
        assert label_checks.ignored_class(DatasetDescriptor('own', 4, 4)) == []

    def test_no_class_is_proposed_as_the_ignore_label(self, caplog):
        for num_classes, proposed in ((255, True), (256, False)):
            (line,) = label_checks.ignored_class(DatasetDescriptor('own', num_classes, 254))
            build_data.warn_of_ignored_class(num_classes, 254)
            assert ('such as 255' in line, 'such as 255' in caplog.messages[-1]) == (proposed, proposed)

    def test_builders_name_their_flags(self, caplog):
        build_data.warn_of_ignored_class(4, 3)
        build_data.warn_of_ignored_class(4, 4)
        build_data.warn_of_ignored_class(None, 3)
        (line,) = caplog.messages
        assert 'ignore_label=3' in line and '4 classes (0 to 3)' in line


class TestBuilt:
    def found(self, ids, num_classes, ignore_label=255):
        counts = np.zeros(256, np.int64)
        counts[list(ids)] = list(ids.values())
        return label_checks.built(counts, num_classes, ignore_label, 'val')

    def test_masks_of_0_and_255(self):
        for num_classes in (2, 21, None):
            (line,) = self.found({0: 60, 255: 40}, num_classes)
            assert "split 'val' contain only the ids 0 and 255" in line and 'mask // 255' in line

    def test_good_masks_and_splits_without_masks(self):
        assert self.found({0: 99_999, 1: 1, 255: 1}, 21) == []
        assert self.found({0: 5}, None) == self.found({0: 0}, 21) == self.found({0: 5, 255: 5}, None, 254) == []

    def test_nothing_one_class_and_much_that_is_ignored(self):
        assert 'Every pixel' in self.found({255: 5}, 2)[0]
        assert 'one class' in self.found({0: 5}, 1)[0]
        assert "only '1' (id 1) occurs" in self.found({1: 5}, 2)[0]
        assert '95.0%' in self.found({0: 2, 1: 3, 255: 95}, 2)[0]
