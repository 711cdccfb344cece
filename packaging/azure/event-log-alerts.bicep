// Collects the event log of the exporter on Windows VMs with Azure Monitor Agent, and alerts when an event is announced.
// README.md has more queries, docs/reference.md the IDs. The VMs need the agent.

@description('Resource ID of the Log Analytics workspace')
param workspaceId string

@description('Resource ID of the action group to notify')
param actionGroupId string

@description('Names of VMs in this resource group')
param vmNames array

@description('Location of the workspace')
param location string = resourceGroup().location

var stream = 'Microsoft-Event'
var query = '''
Event
| where EventLog == "Application" and Source == "azure-scheduled-events-exporter" and EventID == 100
| extend EventType = extract(@"event_type=(\S+)", 1, RenderedDescription), AzureEventId = extract(@"event_id=(\S+)", 1, RenderedDescription)
'''

resource rule 'Microsoft.Insights/dataCollectionRules@2022-06-01' = {
  name: 'azure-scheduled-events'
  location: location
  kind: 'Windows'
  properties: {
    dataSources: {
      windowsEventLogs: [
        {
          name: 'exporter'
          streams: [stream]
          xPathQueries: ['Application!*[System[Provider[@Name=\'azure-scheduled-events-exporter\'] and (EventID>=100)]]']
        }
      ]
    }
    destinations: {
      logAnalytics: [{ name: 'workspace', workspaceResourceId: workspaceId }]
    }
    dataFlows: [{ streams: [stream], destinations: ['workspace'] }]
  }
}

resource vms 'Microsoft.Compute/virtualMachines@2024-11-01' existing = [for name in vmNames: {
  name: name
}]

resource associations 'Microsoft.Insights/dataCollectionRuleAssociations@2022-06-01' = [for (name, index) in vmNames: {
  scope: vms[index]
  name: 'azure-scheduled-events'
  properties: {
    dataCollectionRuleId: rule.id
  }
}]

resource alert 'Microsoft.Insights/scheduledQueryRules@2021-08-01' = {
  name: 'AzureScheduledEventAnnounced'
  location: location
  properties: {
    description: 'Azure announced an event that names this VM'
    severity: 2
    enabled: true
    scopes: [workspaceId]
    evaluationFrequency: 'PT1M'
    windowSize: 'PT5M'
    autoMitigate: true
    criteria: {
      allOf: [
        {
          query: query
          resourceIdColumn: '_ResourceId'
          // One alert for each event and VM.
          dimensions: [
            { name: 'Computer', operator: 'Include', values: ['*'] }
            { name: 'EventType', operator: 'Include', values: ['*'] }
            { name: 'AzureEventId', operator: 'Include', values: ['*'] }
          ]
          timeAggregation: 'Count'
          operator: 'GreaterThan'
          threshold: 0
          failingPeriods: { numberOfEvaluationPeriods: 1, minFailingPeriodsToAlert: 1 }
        }
      ]
    }
    actions: { actionGroups: [actionGroupId] }
  }
}
