"""Plain head: the logits layers read the backbone's features, one per atrous rate, and are summed.

Source: arXiv:1606.00915, section 3.2 (ASPP as first published, without batch norm and projection).
"""

from __future__ import annotations

from deeplab.core.heads import registry

registry.register(
    registry.Head(
        name='plain',
        applies=lambda options: not options.aspp.with_batch_norm and options.dense_prediction_cell_json is None,
        build=lambda features, options: features,
        logits_rates=lambda options: options.aspp.rates or (1,),
    )
)
