"""The augmentations: each module registers one (`deeplab.registry.Augmentation`) and is found without being listed.

An image is [h, w, channels], a label [h, w, 1] or None; where a change moves or hides pixels, it does so in both. What
is random is drawn from a `seed` that is passed in, as in `preprocess_utils`. Nothing here visits pixels one by one.
Importing the modules does not import TensorFlow (`core.lazy`).

Random scaling and the plain random crop are no augmentations of the registry: every training has them
(`input_preprocess.py`), and their parameters are fields of `AugmentOptions`.

The `seed_number` of a record must not change: 0 scale, 1 crop, 2 flip, 3 colors, 4 rotation, 5 blur, 6 cutout, 7 rare
classes.
"""
