"""Plain head: the logits layers read the backbone's features, one per atrous rate, and are summed.

Source: arXiv:1606.00915, section 3.2 (ASPP as first published, without batch norm and projection).
"""

from __future__ import annotations

from deeplab.registry import Head, register

register(
    Head(
        name='plain',
        summary='No layers: the logits are computed from the features of the backbone.',
        order=300,
        applies=lambda options: True,
        build=lambda features, options: features,
        logits_rates=lambda options: options.aspp.rates or (1,),
        source='arXiv:1606.00915, section 3.2',
    )
)
