// SPDX-License-Identifier: GPL-2.0

//! Results as one self-contained HTML page with plots.
