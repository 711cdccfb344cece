//! The file format of a batch: JSON with a version.

use serde::{Deserialize, Serialize};

use crate::{
    json,
    otlp::batch::{Batch, Record},
    otlp::resource::Resource,
};

/// Raised when an older reader would misread the format.
const VERSION: u32 = 1;

#[derive(Serialize)]
struct StoredBatch<'a> {
    version: u32,
    resource: &'a Resource,
    records: &'a [Record],
}

#[derive(Deserialize)]
struct StoredVersion {
    version: u32,
}

#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    #[error("not a batch: {0}")]
    Json(#[from] serde_json::Error),
    #[error("version {0}, but this exporter reads version {VERSION}")]
    Version(u32),
    #[error("no records")]
    Empty,
}

/// `None` if the batch has more than `max` bytes.
pub fn encode(
    resource: &Resource,
    records: &[Record],
    max: usize,
) -> Result<Option<Vec<u8>>, serde_json::Error> {
    let stored = StoredBatch {
        version: VERSION,
        resource,
        records,
    };
    json::to_vec_up_to(&stored, max)
}

pub fn decode(bytes: &[u8]) -> Result<Batch, DecodeError> {
    let StoredVersion { version } = serde_json::from_slice(bytes)?;
    if version != VERSION {
        return Err(DecodeError::Version(version));
    }
    let batch: Batch = serde_json::from_slice(bytes)?;
    if batch.records.is_empty() {
        return Err(DecodeError::Empty);
    }
    Ok(batch)
}
