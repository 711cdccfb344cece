//! The types of events. The table says what this program knows about each of them: everything else reads it.

use std::fmt;

use crate::base::label::label_values;

label_values! {
    /// The severity of an alert, lowest first.
    pub(crate) enum Severity {
        Info = "info",
        Warning = "warning",
        Critical = "critical",
    }
}

/// What an event does to a VM.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Impact {
    /// Memory and disks are kept.
    Pause,
    /// Memory is lost; the VM boots again.
    Restart,
    /// The VM is stopped or deleted.
    Removal,
    None,
    Unknown,
}

#[derive(Debug)]
pub(crate) struct TypeSpec {
    pub impact: Impact,
    /// The first documented version of the API with this type. `None`: none is known to leave it out.
    pub api_version: Option<&'static str>,
    /// The alert of an event that is due.
    pub alert: &'static str,
    /// The severity of the alert. A pause of some seconds has a lower one.
    pub severity: Severity,
    /// What the event does to the VM: a clause of the texts for people.
    pub meaning: &'static str,
    /// How long it usually takes, for an event without an announced duration.
    pub usual_duration: Option<&'static str>,
    /// What an advisory of this type warns of, where that is not the type itself.
    pub advised: Option<&'static str>,
    /// Whether an approval lets it start early. A Spot eviction is carried out, not approved.
    pub starts_early_if_approved: bool,
    /// Whether seconds matter: the notice is shorter than a minute.
    pub shows_seconds: bool,
    pub to_do: &'static str,
}

/// What is assumed of a type that is not known here.
const OTHER: TypeSpec = TypeSpec {
    impact: Impact::Unknown,
    api_version: None,
    alert: "AzureScheduledEventUnknownType",
    severity: Severity::Warning,
    meaning: "a type that is not known here",
    usual_duration: None,
    advised: None,
    starts_early_if_approved: false,
    shows_seconds: false,
    to_do: "read the text of Azure and the documentation of the event type",
};

macro_rules! event_types {
    (
        maintenance { $($name:ident: $spec:expr,)* }
        advisories { $($advisory:ident: $advisory_spec:expr,)* }
    ) => {
        azure_values! { EventType { $($name,)* $($advisory,)* } }

        impl EventType {
            /// The types of maintenance that Microsoft documents.
            pub const KNOWN: [Self; [$(stringify!($name)),*].len()] = [$(Self::$name),*];
            /// The types that are always advisories.
            pub(crate) const ADVISORIES: [Self; [$(stringify!($advisory)),*].len()] = [$(Self::$advisory),*];

            pub(crate) fn spec(&self) -> &'static TypeSpec {
                match self {
                    $(Self::$name => const { &$spec },)*
                    $(Self::$advisory => const { &$advisory_spec },)*
                    Self::Other(_) => const { &OTHER },
                }
            }
        }
    };
}

event_types! {
    maintenance {
        Freeze: TypeSpec {
            impact: Impact::Pause,
            api_version: Some("2017-03-01"),
            alert: "AzureScheduledEventFreeze",
            severity: Severity::Warning,
            meaning: "the VM is paused; memory and disks are kept, connections may break",
            usual_duration: Some("some seconds"),
            starts_early_if_approved: true,
            to_do: "move the load of the VM before that time",
            ..OTHER
        },
        Reboot: TypeSpec {
            impact: Impact::Restart,
            api_version: Some("2017-03-01"),
            alert: "AzureScheduledEventReboot",
            severity: Severity::Critical,
            meaning: "the VM restarts; what is in memory is lost",
            usual_duration: Some("5 to 10 minutes"),
            starts_early_if_approved: true,
            to_do: "move the load of the VM and save what is in memory before that time",
            ..OTHER
        },
        Redeploy: TypeSpec {
            impact: Impact::Restart,
            api_version: Some("2017-03-01"),
            alert: "AzureScheduledEventRedeploy",
            severity: Severity::Critical,
            meaning: "the VM moves to another host; memory and temporary disks are lost",
            usual_duration: Some("5 to 10 minutes"),
            starts_early_if_approved: true,
            to_do: "move the load of the VM and save what is in memory and on the temporary disk before that time",
            ..OTHER
        },
        Preempt: TypeSpec {
            impact: Impact::Removal,
            api_version: Some("2017-11-01"),
            alert: "AzureScheduledEventPreempt",
            severity: Severity::Critical,
            meaning: "the Spot VM is evicted; memory and temporary disks are lost",
            shows_seconds: true,
            to_do: "save the state of the VM now; it is gone within seconds",
            ..OTHER
        },
        Terminate: TypeSpec {
            impact: Impact::Removal,
            api_version: Some("2019-01-01"),
            alert: "AzureScheduledEventTerminate",
            severity: Severity::Warning,
            meaning: "the VM is deleted",
            starts_early_if_approved: true,
            to_do: "nothing, if the deletion is intended; else save its data now",
            ..OTHER
        },
    }
    advisories {
        // Always an advisory (preview):
        // <https://learn.microsoft.com/azure/virtual-machines/spot-eviction-risk-notifications>.
        SpotRebalanceRecommendation: TypeSpec {
            impact: Impact::None,
            alert: "AzureScheduledEventAdvisory",
            severity: Severity::Info,
            meaning: "the Spot VM has a higher risk of eviction; this is advice, no maintenance is scheduled",
            advised: Some("Spot eviction"),
            to_do: "move the load of the VM to another VM",
            ..OTHER
        },
    }
}

impl EventType {
    pub(crate) fn restarts_vm(&self) -> bool {
        self.spec().impact == Impact::Restart
    }
}

impl fmt::Display for EventType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
