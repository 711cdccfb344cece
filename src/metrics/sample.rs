//! Labels and values of samples, as the collector gives them to both back ends.

use std::{borrow::Cow, fmt};

use prometheus_client::encoding::{
    CounterValueEncoder, EncodeCounterValue, EncodeGaugeValue, GaugeValueEncoder,
};

/// A name of the catalog, and the value.
pub(super) type Label<'a> = (&'static str, Cow<'a, str>);

/// The value of a gauge or a counter.
#[derive(Debug, Clone, Copy)]
pub(super) enum Number {
    /// Not negative in a counter.
    Int(i64),
    Float(f64),
}

impl From<bool> for Number {
    fn from(value: bool) -> Self {
        Self::Int(value.into())
    }
}

impl From<i64> for Number {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

impl From<u64> for Number {
    fn from(value: u64) -> Self {
        Self::Int(i64::try_from(value).unwrap_or(i64::MAX))
    }
}

impl From<f64> for Number {
    fn from(value: f64) -> Self {
        Self::Float(value)
    }
}

impl EncodeGaugeValue for Number {
    fn encode(&self, encoder: &mut GaugeValueEncoder<'_>) -> fmt::Result {
        match self {
            Self::Int(value) => EncodeGaugeValue::encode(value, encoder),
            Self::Float(value) => EncodeGaugeValue::encode(value, encoder),
        }
    }
}

impl EncodeCounterValue for Number {
    fn encode(&self, encoder: &mut CounterValueEncoder<'_>) -> fmt::Result {
        match self {
            Self::Int(value) => EncodeCounterValue::encode(&value.unsigned_abs(), encoder),
            Self::Float(value) => EncodeCounterValue::encode(value, encoder),
        }
    }
}
