# SPDX-License-Identifier: Apache-2.0
"""``python -m fusednorm blocks``: what share of a transformer block its norms are."""
