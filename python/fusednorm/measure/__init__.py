# SPDX-License-Identifier: Apache-2.0
"""Measures LayerNorm as it is built today, as it was built in 2019, and fused.

``python -m fusednorm profile`` shows where the time of one shape goes, ``bench`` sweeps over
shapes, ``report`` writes both as one page. docs/benchmarks.md says how each number is taken.
"""
