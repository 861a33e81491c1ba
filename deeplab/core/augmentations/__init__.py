"""The augmentations: each module registers one (`deeplab.registry.Augmentation`) and is found without being listed.

An image is [h, w, channels], a label [h, w, 1] or None; where a change moves or hides pixels, it does so in both. What
is random is drawn from a `seed` that is passed in, as in `preprocess_utils`. Nothing here visits pixels one by one.
Importing the modules does not import TensorFlow (`core.lazy`).

Random scaling and the plain random crop are no augmentations of the registry: every training has them
(`input_preprocess.py`), and their parameters are fields of `AugmentOptions`.

The `seed_number` of a record must not change, because two runs with one seed are the same in all versions. A new
augmentation needs none.
"""
