#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    azure_scheduled_events_exporter_fuzz::environment(input);
});
