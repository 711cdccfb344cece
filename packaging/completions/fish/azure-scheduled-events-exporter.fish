# Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
function __fish_azure_scheduled_events_exporter_global_optspecs
    string join \n web.listen-address= web.telemetry-path= web.config.file= web.allowed-hosts= serving.lead-time= imds.url= imds.api-version= imds.timeout= vm.name= imds.poll-interval= events.scope= metrics.resources approve.user-events approve.freeze-below= approve.for= approve.delay= approve.drain= approve.dry-run state.directory= alertmanager.url= alertmanager.basic-auth-file= alertmanager.bearer-token-file= alertmanager.ca-file= alertmanager.external-label= log.level= log.format= h/help V/version
end

function __fish_azure_scheduled_events_exporter_needs_command
    # Figure out if the current invocation already has a command.
    set -l cmd (commandline -opc)
    set -e cmd[1]
    argparse -s (__fish_azure_scheduled_events_exporter_global_optspecs) -- $cmd 2>/dev/null
    or return
    if set -q argv[1]
        # Also print the command, so this can be used to figure out what it is.
        echo $argv[1]
        return 1
    end
    return 0
end

function __fish_azure_scheduled_events_exporter_using_subcommand
    set -l cmd (__fish_azure_scheduled_events_exporter_needs_command)
    test -z "$cmd"
    and return 1
    contains -- $cmd[1] $argv
end

complete -c azure-scheduled-events-exporter -n "__fish_azure_scheduled_events_exporter_needs_command" -l web.listen-address -d 'Address to serve on; an empty host means all addresses (repeatable)' -r
complete -c azure-scheduled-events-exporter -n "__fish_azure_scheduled_events_exporter_needs_command" -l web.telemetry-path -d 'Path under which metrics are served' -r
complete -c azure-scheduled-events-exporter -n "__fish_azure_scheduled_events_exporter_needs_command" -l web.config.file -d 'File with TLS, users, headers and a rate limit, in the format of Prometheus exporter-toolkit; read for each request' -r -F
complete -c azure-scheduled-events-exporter -n "__fish_azure_scheduled_events_exporter_needs_command" -l web.allowed-hosts -d 'Host names that may be used for / and /api/v1/events, besides IP addresses, localhost and the names of this VM; `*.DOMAIN` means all names in a domain, `*` all names (comma-separated, repeatable)' -r
complete -c azure-scheduled-events-exporter -n "__fish_azure_scheduled_events_exporter_needs_command" -l serving.lead-time -d 'How long before NotBefore /-/serving starts to return 503, so that a load balancer drains this VM' -r
complete -c azure-scheduled-events-exporter -n "__fish_azure_scheduled_events_exporter_needs_command" -l imds.url -d 'Base URL of IMDS; on a classic VM, the discovered address' -r
complete -c azure-scheduled-events-exporter -n "__fish_azure_scheduled_events_exporter_needs_command" -l imds.api-version -d 'Version of the Scheduled Events API: any date. Older versions lack event types and fields; the log lists them' -r
complete -c azure-scheduled-events-exporter -n "__fish_azure_scheduled_events_exporter_needs_command" -l imds.timeout -d 'Timeout of one request. It is at least 130s until the first success, after that once after two timeouts in a row and once an hour without a success, because the first response after enabling may take two minutes' -r
complete -c azure-scheduled-events-exporter -n "__fish_azure_scheduled_events_exporter_needs_command" -l vm.name -d 'Name of this VM in Resources [default: the name in instance metadata]' -r
complete -c azure-scheduled-events-exporter -n "__fish_azure_scheduled_events_exporter_needs_command" -l imds.poll-interval -d 'Interval between polls; at least 200ms, because IMDS allows five requests per second and VM' -r
complete -c azure-scheduled-events-exporter -n "__fish_azure_scheduled_events_exporter_needs_command" -l events.scope -d 'Events with their own series: those that name this VM, or all' -r -f -a "self\t'Events that name this VM'
all\t'All events'"
complete -c azure-scheduled-events-exporter -n "__fish_azure_scheduled_events_exporter_needs_command" -l approve.freeze-below -d 'Approve freezes with an announced duration shorter than this; never those of unknown duration' -r
complete -c azure-scheduled-events-exporter -n "__fish_azure_scheduled_events_exporter_needs_command" -l approve.for -d 'VMs whose events --approve.user-events approves. Those of other VMs are approved after --approve.delay, so that a VM that hangs does not delay its restart' -r -f -a "self\t'This VM'
group\t'All VMs whose events are visible: those of the availability set or placement group'"
complete -c azure-scheduled-events-exporter -n "__fish_azure_scheduled_events_exporter_needs_command" -l approve.delay -d 'How long after the announcement a VM that is not first in Resources, or not among them, approves, if the event is still Scheduled [default: 60s]' -r
complete -c azure-scheduled-events-exporter -n "__fish_azure_scheduled_events_exporter_needs_command" -l approve.drain -d 'How long an event counts as due, so that /-/serving returns 503 and a load balancer drains this VM, before its approval is sent; at most 10m [default: 0s]' -r
complete -c azure-scheduled-events-exporter -n "__fish_azure_scheduled_events_exporter_needs_command" -l state.directory -d 'Directory that keeps events, unsent spans and log records over a restart; without it they are in memory only' -r
complete -c azure-scheduled-events-exporter -n "__fish_azure_scheduled_events_exporter_needs_command" -l alertmanager.url -d 'Push alerts for events of this VM to this Alertmanager, such as `http://alertmanager:9093` (repeatable)' -r
complete -c azure-scheduled-events-exporter -n "__fish_azure_scheduled_events_exporter_needs_command" -l alertmanager.basic-auth-file -d 'File with USER:PASSWORD for all Alertmanagers; read for each push' -r -F
complete -c azure-scheduled-events-exporter -n "__fish_azure_scheduled_events_exporter_needs_command" -l alertmanager.bearer-token-file -d 'File with a bearer token for all Alertmanagers; read for each push' -r -F
complete -c azure-scheduled-events-exporter -n "__fish_azure_scheduled_events_exporter_needs_command" -l alertmanager.ca-file -d 'File with CA certificates (PEM) for all Alertmanagers [default: those of the system]' -r -F
complete -c azure-scheduled-events-exporter -n "__fish_azure_scheduled_events_exporter_needs_command" -l alertmanager.external-label -d 'Label for each pushed alert, such as `cluster=eu-1`: an external label of Prometheus (repeatable)' -r
complete -c azure-scheduled-events-exporter -n "__fish_azure_scheduled_events_exporter_needs_command" -l log.level -d 'Minimum level of log messages' -r -f -a "error\t''
warn\t''
info\t''
debug\t''
trace\t''"
complete -c azure-scheduled-events-exporter -n "__fish_azure_scheduled_events_exporter_needs_command" -l log.format -d 'Format of log lines, on stderr' -r -f -a "logfmt\t'key=value'
json\t'One JSON object per line'"
complete -c azure-scheduled-events-exporter -n "__fish_azure_scheduled_events_exporter_needs_command" -l metrics.resources -d 'Add one series per event and VM in its Resources'
complete -c azure-scheduled-events-exporter -n "__fish_azure_scheduled_events_exporter_needs_command" -l approve.user-events -d 'Approve events requested by a user, so that a restart or redeploy does not wait for NotBefore'
complete -c azure-scheduled-events-exporter -n "__fish_azure_scheduled_events_exporter_needs_command" -l approve.dry-run -d 'Decide, log and count approvals, but send nothing and drain nothing'
complete -c azure-scheduled-events-exporter -n "__fish_azure_scheduled_events_exporter_needs_command" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c azure-scheduled-events-exporter -n "__fish_azure_scheduled_events_exporter_needs_command" -s V -l version -d 'Print version'
complete -c azure-scheduled-events-exporter -n "__fish_azure_scheduled_events_exporter_needs_command" -f -a "demo" -d 'Run the exporter with a simulated Azure in one process, on loopback. Needs no configuration'
complete -c azure-scheduled-events-exporter -n "__fish_azure_scheduled_events_exporter_needs_command" -f -a "simulate" -d 'Run the simulated Azure without the exporter'
complete -c azure-scheduled-events-exporter -n "__fish_azure_scheduled_events_exporter_needs_command" -f -a "list" -d 'Query Azure once and print the pending events'
complete -c azure-scheduled-events-exporter -n "__fish_azure_scheduled_events_exporter_needs_command" -f -a "approve" -d 'Approve one event: Azure may then start it before its NotBefore, on every VM in its Resources'
complete -c azure-scheduled-events-exporter -n "__fish_azure_scheduled_events_exporter_using_subcommand demo" -l web.listen-address -d 'Loopback address to serve on' -r
complete -c azure-scheduled-events-exporter -n "__fish_azure_scheduled_events_exporter_using_subcommand demo" -l web.config.file -d 'File with TLS, users, headers and a rate limit, in the format of Prometheus exporter-toolkit; read for each request' -r -F
complete -c azure-scheduled-events-exporter -n "__fish_azure_scheduled_events_exporter_using_subcommand demo" -l scenario -d 'Name of a scenario, or path of a scenario file (repeatable)' -r
complete -c azure-scheduled-events-exporter -n "__fish_azure_scheduled_events_exporter_using_subcommand demo" -l speed -d 'Factor by which simulated waiting is faster than real time' -r
complete -c azure-scheduled-events-exporter -n "__fish_azure_scheduled_events_exporter_using_subcommand demo" -l vm.name -d 'Name of the simulated VM. An instance of a classic cloud service, such as `FrontEnd_IN_0`, has no instance metadata' -r
complete -c azure-scheduled-events-exporter -n "__fish_azure_scheduled_events_exporter_using_subcommand demo" -l vm.scale-set -d 'Scale set of the simulated VM: flexible unless the name is `NAME_NUMBER`; empty for a VM in none. Default: from the name' -r
complete -c azure-scheduled-events-exporter -n "__fish_azure_scheduled_events_exporter_using_subcommand demo" -l vm.os-type -d 'Operating system of the simulated VM' -r -f -a "linux\t''
windows\t''"
complete -c azure-scheduled-events-exporter -n "__fish_azure_scheduled_events_exporter_using_subcommand demo" -l imds.api-version -d 'Version of the Scheduled Events API that the exporter asks for. Advisories need one newer than the default' -r
complete -c azure-scheduled-events-exporter -n "__fish_azure_scheduled_events_exporter_using_subcommand demo" -l events.scope -d 'Events with their own series: those that name this VM, or all' -r -f -a "self\t'Events that name this VM'
all\t'All events'"
complete -c azure-scheduled-events-exporter -n "__fish_azure_scheduled_events_exporter_using_subcommand demo" -l log.level -d 'Minimum level of log messages' -r -f -a "error\t''
warn\t''
info\t''
debug\t''
trace\t''"
complete -c azure-scheduled-events-exporter -n "__fish_azure_scheduled_events_exporter_using_subcommand demo" -l log.format -d 'Format of log lines, on stderr' -r -f -a "logfmt\t'key=value'
json\t'One JSON object per line'"
complete -c azure-scheduled-events-exporter -n "__fish_azure_scheduled_events_exporter_using_subcommand demo" -l metrics.resources -d 'Add one series per event and VM in its Resources'
complete -c azure-scheduled-events-exporter -n "__fish_azure_scheduled_events_exporter_using_subcommand demo" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c azure-scheduled-events-exporter -n "__fish_azure_scheduled_events_exporter_using_subcommand simulate" -l web.listen-address -d 'Address to serve on' -r
complete -c azure-scheduled-events-exporter -n "__fish_azure_scheduled_events_exporter_using_subcommand simulate" -l scenario -d 'Name of a scenario, or path of a scenario file (repeatable). Without it, scenarios are started on the page or through the API' -r
complete -c azure-scheduled-events-exporter -n "__fish_azure_scheduled_events_exporter_using_subcommand simulate" -l speed -d 'Factor by which simulated waiting is faster than real time' -r
complete -c azure-scheduled-events-exporter -n "__fish_azure_scheduled_events_exporter_using_subcommand simulate" -l vm.name -d 'Name of the simulated VM. An instance of a classic cloud service, such as `FrontEnd_IN_0`, has no instance metadata' -r
complete -c azure-scheduled-events-exporter -n "__fish_azure_scheduled_events_exporter_using_subcommand simulate" -l vm.scale-set -d 'Scale set of the simulated VM: flexible unless the name is `NAME_NUMBER`; empty for a VM in none. Default: from the name' -r
complete -c azure-scheduled-events-exporter -n "__fish_azure_scheduled_events_exporter_using_subcommand simulate" -l vm.os-type -d 'Operating system of the simulated VM' -r -f -a "linux\t''
windows\t''"
complete -c azure-scheduled-events-exporter -n "__fish_azure_scheduled_events_exporter_using_subcommand simulate" -l log.level -d 'Minimum level of log messages' -r -f -a "error\t''
warn\t''
info\t''
debug\t''
trace\t''"
complete -c azure-scheduled-events-exporter -n "__fish_azure_scheduled_events_exporter_using_subcommand simulate" -l log.format -d 'Format of log lines, on stderr' -r -f -a "logfmt\t'key=value'
json\t'One JSON object per line'"
complete -c azure-scheduled-events-exporter -n "__fish_azure_scheduled_events_exporter_using_subcommand simulate" -l list -d 'Print the built-in scenarios and exit'
complete -c azure-scheduled-events-exporter -n "__fish_azure_scheduled_events_exporter_using_subcommand simulate" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c azure-scheduled-events-exporter -n "__fish_azure_scheduled_events_exporter_using_subcommand list" -s o -l output -d 'Output format' -r -f -a "table\t'Aligned columns'
json\t'Azure\'s JSON'"
complete -c azure-scheduled-events-exporter -n "__fish_azure_scheduled_events_exporter_using_subcommand list" -l imds.url -d 'Base URL of IMDS; on a classic VM, the discovered address' -r
complete -c azure-scheduled-events-exporter -n "__fish_azure_scheduled_events_exporter_using_subcommand list" -l imds.api-version -d 'Version of the Scheduled Events API: any date. Older versions lack event types and fields; the log lists them' -r
complete -c azure-scheduled-events-exporter -n "__fish_azure_scheduled_events_exporter_using_subcommand list" -l imds.timeout -d 'Timeout of one request. It is at least 130s until the first success, after that once after two timeouts in a row and once an hour without a success, because the first response after enabling may take two minutes' -r
complete -c azure-scheduled-events-exporter -n "__fish_azure_scheduled_events_exporter_using_subcommand list" -l vm.name -d 'Name of this VM in Resources [default: the name in instance metadata]' -r
complete -c azure-scheduled-events-exporter -n "__fish_azure_scheduled_events_exporter_using_subcommand list" -l log.level -d 'Minimum level of log messages' -r -f -a "error\t''
warn\t''
info\t''
debug\t''
trace\t''"
complete -c azure-scheduled-events-exporter -n "__fish_azure_scheduled_events_exporter_using_subcommand list" -l log.format -d 'Format of log lines, on stderr' -r -f -a "logfmt\t'key=value'
json\t'One JSON object per line'"
complete -c azure-scheduled-events-exporter -n "__fish_azure_scheduled_events_exporter_using_subcommand list" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c azure-scheduled-events-exporter -n "__fish_azure_scheduled_events_exporter_using_subcommand approve" -s o -l output -d 'Output format' -r -f -a "table\t'Aligned columns'
json\t'Azure\'s JSON'"
complete -c azure-scheduled-events-exporter -n "__fish_azure_scheduled_events_exporter_using_subcommand approve" -l imds.url -d 'Base URL of IMDS; on a classic VM, the discovered address' -r
complete -c azure-scheduled-events-exporter -n "__fish_azure_scheduled_events_exporter_using_subcommand approve" -l imds.api-version -d 'Version of the Scheduled Events API: any date. Older versions lack event types and fields; the log lists them' -r
complete -c azure-scheduled-events-exporter -n "__fish_azure_scheduled_events_exporter_using_subcommand approve" -l imds.timeout -d 'Timeout of one request. It is at least 130s until the first success, after that once after two timeouts in a row and once an hour without a success, because the first response after enabling may take two minutes' -r
complete -c azure-scheduled-events-exporter -n "__fish_azure_scheduled_events_exporter_using_subcommand approve" -l vm.name -d 'Name of this VM in Resources [default: the name in instance metadata]' -r
complete -c azure-scheduled-events-exporter -n "__fish_azure_scheduled_events_exporter_using_subcommand approve" -l log.level -d 'Minimum level of log messages' -r -f -a "error\t''
warn\t''
info\t''
debug\t''
trace\t''"
complete -c azure-scheduled-events-exporter -n "__fish_azure_scheduled_events_exporter_using_subcommand approve" -l log.format -d 'Format of log lines, on stderr' -r -f -a "logfmt\t'key=value'
json\t'One JSON object per line'"
complete -c azure-scheduled-events-exporter -n "__fish_azure_scheduled_events_exporter_using_subcommand approve" -l dry-run -d 'Print what would be approved, but send nothing'
complete -c azure-scheduled-events-exporter -n "__fish_azure_scheduled_events_exporter_using_subcommand approve" -s h -l help -d 'Print help (see more with \'--help\')'
