"""What happens on the scripted day of docs/notifications.md."""

from __future__ import annotations

from scenario import Day, Event
from scenario import seconds as at


def script() -> Day:
    day = Day()
    web = [day.vm(f"web_{number}", scale_set="web") for number in range(36)]
    db = [day.vm(f"db-{number}") for number in range(4)]
    node = day.vm("aks-pool-2", node="aks-pool-2", scale_set="aks-pool")
    staging = day.vm("db-0", cluster="staging")

    day.scene(
        "A Freeze of 9 s",
        "Azure pauses the VM for some seconds. Severity `info`: it is only on the dashboards.",
        Event([db[0]], "Freeze", at("0:10"), at("0:25"), 9, started=at("0:25"), ended=at("0:25:30"), interrupted=7),
    )
    day.scene(
        "Host maintenance without interruption",
        "Announced with a duration of 0. Severity `info`.",
        Event([db[1]], "Freeze", at("0:15"), at("0:30"), 0, started=at("0:30"), ended=at("0:30:30")),
    )
    day.scene(
        "A Freeze of unknown duration",
        "",
        Event([db[2]], "Freeze", at("0:20"), at("0:35"), started=at("0:35"), ended=at("0:35:30"), interrupted=12),
    )
    day.scene(
        "A Reboot",
        "The usual notice is 15 minutes. The VM is down for two minutes.",
        Event(
            [web[2]],
            "Reboot",
            at("0:30"),
            at("0:45"),
            started=at("0:45"),
            ended=at("0:48"),
            interrupted=95,
            description="Host server is undergoing maintenance.",
        ),
    )
    web[2].down.append((at("0:45:30"), at("0:47:30")))
    day.scene(
        "A Redeploy that is announced hours ahead",
        "The VM is a node of AKS. A warning at first sight, and a critical alert in the last hour.",
        Event([node], "Redeploy", at("0:40"), at("3:10"), started=at("3:10"), ended=at("3:16"), interrupted=330),
    )
    node.down.append((at("3:10:15"), at("3:15:30")))
    day.scene(
        "Degraded hardware",
        "A Redeploy that is announced six days ahead. It is still open at the end of the day.",
        Event([db[1]], "Redeploy", at("0:42"), at("1:30") + 6 * 86400),
    )
    day.scene(
        "A Reboot of three VMs that is cancelled",
        "",
        Event(web[3:6], "Reboot", at("0:50"), at("1:05"), ended=at("0:56"), outcome="cancelled"),
    )
    day.scene(
        "A Reboot that a user ordered",
        "It waits for an approval, which comes after five minutes.",
        Event(
            [web[6]],
            "Reboot",
            at("1:00"),
            at("1:15"),
            source="User",
            started=at("1:05"),
            ended=at("1:07"),
            interrupted=40,
        ),
    )
    web[6].down.append((at("1:05:15"), at("1:06:30")))
    day.scene(
        "A hardware failure",
        "The event is Started at first sight. There was no announcement.",
        Event([db[0]], "Reboot", at("1:10"), started=at("1:10"), ended=at("1:18"), interrupted=400),
    )
    db[0].down.append((at("1:10:30"), at("1:17:15")))
    day.scene(
        "A Reboot that is overdue",
        "Azure starts it 15 minutes after NotBefore.",
        Event([web[7]], "Reboot", at("1:20"), at("1:35"), started=at("1:50"), ended=at("1:53"), interrupted=60),
    )
    web[7].down.append((at("1:50:15"), at("1:52")))
    day.scene(
        "An advisory, then a Spot eviction",
        "The advisory is `info`. The VM is deleted 45 seconds after the announcement of the eviction.",
        Event([web[8]], "SpotRebalanceRecommendation", at("1:55"), status="Advisory"),
        Event([web[8]], "Preempt", at("1:57"), at("1:57:30"), started=at("1:57:30")),
    )
    web[8].deleted = at("1:57:45")
    day.scene(
        "A storm: 25 Spot evictions within 5 s",
        "Most of a scale set. The alerts about many VMs page once; the evictions are one group in the chat.",
        *(
            Event([vm], "Preempt", second, second + 30, started=second + 30)
            for vm, second in ((web[number + 9], at("2:14:57") + number // 5) for number in range(25))
        ),
        alerts=("AzureScheduledEventsFleetAtRisk", "AzureScheduledEventsScaleSetAtRisk"),
    )
    for vm in web[9:34]:
        vm.deleted = at("2:15:45")
    day.scene(
        "A deletion by the autoscaler",
        "",
        Event([web[34]], "Terminate", at("2:40"), at("2:45"), source="User", started=at("2:45")),
    )
    web[34].deleted = at("2:45:15")
    day.scene(
        "A Reboot after which the VM stays down for 50 minutes",
        "The alert stays open until the VM is back. Then there is no second page.",
        Event([web[0]], "Reboot", at("2:50"), at("3:05"), started=at("3:05"), ended=at("3:56"), interrupted=3030),
    )
    web[0].down.append((at("3:05:15"), at("3:55:45")))
    day.scene(
        "Equal names in two clusters",
        "Both clusters have a VM with the name db-0.",
        Event([db[0]], "Reboot", at("3:20"), at("3:35"), started=at("3:35"), ended=at("3:37"), interrupted=50),
        Event([staging], "Reboot", at("3:20"), at("3:35"), started=at("3:35"), ended=at("3:37"), interrupted=70),
    )
    for vm in (db[0], staging):
        vm.down.append((at("3:35:15"), at("3:36:30")))
    day.scene(
        "An event of an unknown type",
        "",
        Event([db[2]], "Quarantine", at("3:40"), at("3:55"), started=at("3:55"), ended=at("3:56"), description="New."),
    )
    day.scene(
        "A VM that disappears before its Freeze",
        "No exporter reports the end of the event.",
        Event([web[1]], "Freeze", at("3:45"), at("4:00"), 30),
    )
    web[1].deleted = at("3:49:45")
    day.scene(
        "An exporter that cannot be scraped",
        "No event explains it.",
        alerts=("AzureScheduledEventsExporterDown",),
    )
    db[3].down.append((at("4:02"), at("4:25")))
    return day
