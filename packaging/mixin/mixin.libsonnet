// The rules and dashboards as a monitoring mixin, for deployments that use jsonnet:
//
//     jb install github.com/azure-scheduled-events-exporter/azure-scheduled-events-exporter@main
//
//     local mixin = import 'github.com/azure-scheduled-events-exporter/azure-scheduled-events-exporter/packaging/mixin/mixin.libsonnet';
//     mixin { _config+:: { selector: 'job="azure-scheduled-events", namespace="monitoring"' } }
//
// Install the whole repository: this file imports alerts/ and dashboards/.
{
  _config+:: {
    // Selects the targets that are exporters of Scheduled Events.
    selector: 'job="azure-scheduled-events"',
    dashboardFolder: 'Azure',
    // For the links of alerts to dashboards; empty: no such links.
    grafanaUrl: '',
    // Also the alerts of optional.rules.yml.
    optional: false,
  },

  local shipped = 'up{job="azure-scheduled-events"}',
  local linked(text) = std.strReplace(text, '{{ with "" }}', '{{ with "%s" }}' % $._config.grafanaUrl),
  local rules(text) = std.parseYaml(std.strReplace(linked(text), shipped, 'up{%s}' % $._config.selector)).groups,

  // Groups with alerts and the records that they read. A group is evaluated in order, so its records stay with its alerts.
  prometheusAlerts+:: {
    groups+:
      rules(importstr '../../alerts/scheduled-events.rules.yml')
      + rules(importstr '../../alerts/exporter-health.rules.yml')
      + (if $._config.optional then rules(importstr '../../alerts/optional.rules.yml') else []),
  },

  grafanaDashboardFolder:: $._config.dashboardFolder,
  grafanaDashboards+:: {
    'azse-fleet.json': import '../../dashboards/azse-fleet.json',
    'azse-vm.json': import '../../dashboards/azse-vm.json',
    'azse-history.json': import '../../dashboards/azse-history.json',
  },
}
