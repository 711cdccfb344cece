//! The versions of the Scheduled Events API.
//!
//! Source: <https://learn.microsoft.com/azure/virtual-machines/linux/scheduled-events#version-and-region-availability>.

use std::sync::Arc;

use crate::{
    azure::event::EventType,
    base::{label::label_values, time},
};

/// Any date, since Azure publishes versions that this table does not have, such as that of the Spot rebalance
/// recommendations (<https://learn.microsoft.com/azure/virtual-machines/spot-eviction-risk-notifications>).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiVersion(Arc<str>);

label_values! {
    /// A field of an event that older versions do not have, by its name in the document.
    pub enum EventField {
        Description = "Description",
        EventSource = "EventSource",
        DurationInSeconds = "DurationInSeconds",
    }
}

/// Oldest first.
const API_VERSIONS: [&str; 7] = [
    PREVIEW,
    "2017-08-01",
    "2017-11-01",
    "2019-01-01",
    "2019-04-01",
    "2019-08-01",
    LATEST_API_VERSION,
];

const PREVIEW: &str = "2017-03-01";

/// The default of `--imds.api-version`; the only version with all event types and fields.
pub(crate) const LATEST_API_VERSION: &str = "2020-07-01";

impl ApiVersion {
    /// `None` unless `name` is a date as `YYYY-MM-DD`.
    pub fn parse(name: &str) -> Option<Self> {
        time::is_date(name).then(|| Self(name.into()))
    }

    pub(crate) fn name(&self) -> &str {
        &self.0
    }

    /// What its documents are assumed to contain: the newest documented version that is not newer, or the oldest one.
    pub(crate) fn documented(&self) -> &'static str {
        let mut newest_first = API_VERSIONS.into_iter().rev();
        let not_newer = newest_first.find(|documented| **documented <= *self.0);
        not_newer.unwrap_or(PREVIEW)
    }

    pub(crate) fn is_documented(&self) -> bool {
        *self.0 == *self.documented()
    }

    /// True also for types without a documented version: no version is known to leave them out.
    pub(crate) fn has_event_type(&self, event_type: &EventType) -> bool {
        let since = event_type.spec().api_version;
        since.is_none_or(|since| since <= self.documented())
    }

    pub(crate) fn has_field(&self, field: EventField) -> bool {
        let since = match field {
            EventField::Description => "2019-04-01",
            EventField::EventSource => "2019-08-01",
            EventField::DurationInSeconds => LATEST_API_VERSION,
        };
        since <= self.documented()
    }

    /// The preview writes ISO 8601 times, and an underscore before the name of each VM.
    pub(crate) fn is_preview(&self) -> bool {
        self.documented() == PREVIEW
    }

    /// The event types and fields that this version leaves out, as a list for the log; empty for the latest version.
    pub(crate) fn missing(&self) -> String {
        let event_types = EventType::KNOWN
            .into_iter()
            .filter(|known| !self.has_event_type(known))
            .map(|event_type| format!("{} events", event_type.as_str()));
        let fields = EventField::ALL
            .into_iter()
            .filter(|field| !self.has_field(*field))
            .map(|field| field.as_str().to_owned());
        event_types.chain(fields).collect::<Vec<_>>().join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(name: &str) -> ApiVersion {
        ApiVersion::parse(name).unwrap()
    }

    #[test]
    fn versions_are_in_order_and_each_has_what_the_one_before_has() {
        for pair in API_VERSIONS.windows(2) {
            let (older, newer) = (pair[0], pair[1]);
            assert!(older < newer);
            let types = |name| EventType::KNOWN.map(|it| version(name).has_event_type(&it));
            assert!(types(older) <= types(newer));
        }
    }

    #[test]
    fn missing_event_types_and_fields_are_listed() {
        let missing = |name| version(name).missing();
        assert_eq!(
            missing("2017-08-01"),
            "Preempt events, Terminate events, Description, EventSource, DurationInSeconds"
        );
        assert_eq!(
            missing("2019-01-01"),
            "Description, EventSource, DurationInSeconds"
        );
        assert_eq!(missing("2019-08-01"), "DurationInSeconds");
        assert_eq!(missing(LATEST_API_VERSION), "");
    }

    #[test]
    fn an_undocumented_version_is_assumed_to_contain_what_the_documented_one_before_it_contains() {
        for (name, documented) in [
            ("2016-12-31", "2017-03-01"),
            ("2017-03-01", "2017-03-01"),
            ("2018-01-01", "2017-11-01"),
            ("2020-06-30", "2019-08-01"),
            ("2020-07-01", LATEST_API_VERSION),
            ("2027-02-28", LATEST_API_VERSION),
        ] {
            assert_eq!(version(name).documented(), documented);
            assert_eq!(version(name).is_documented(), name == documented, "{name}");
        }
    }

    #[test]
    fn a_version_is_a_date_that_exists() {
        for name in [
            "",
            "latest",
            "2020-7-1",
            "20200701",
            "2020-07-01 ",
            "2020-13-01",
            "2021-02-29",
            "2020/07/01",
            "+020-07-01",
            "2020-W27-3",
            "２０２０-07-01",
        ] {
            assert_eq!(ApiVersion::parse(name), None, "{name:?}");
        }
    }
}
