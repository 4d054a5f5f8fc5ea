// Made from model/rules.json. Do not edit it.
export const told = {
 "about": [
  "How a row of the inbox changes: for each event, the first rule that applies. No rule applies: nothing changes.",
  "A rule applies if the row's state is `from`, and all its guards hold. It sets the state to `to`, and each field in",
  "`changes` to the sum of its terms: whole numbers, fields of the row before the event, and values of the event.",
  "model/rules.py and simulations/static/rules.js read it. Left out: order per key, expiry, suspects, workflows."
 ],
 "fields": [
  "owner",
  "generation",
  "attempts",
  "max_attempts",
  "available",
  "lease",
  "crashes",
  "lost",
  "cancel"
 ],
 "values": [
  "now",
  "worker",
  "generation",
  "lease",
  "delay",
  "max_attempts"
 ],
 "states": [
  "absent",
  "pending",
  "processing",
  "dead_letter",
  "completed",
  "failed",
  "cancelled",
  "discarded"
 ],
 "guards": {
  "due": [
   [
    "row.available",
    "<=",
    "event.now"
   ]
  ],
  "waiting": [
   [
    "row.available",
    ">",
    "event.now"
   ]
  ],
  "held": [
   [
    "row.owner",
    "=",
    "event.worker"
   ],
   [
    "row.generation",
    "=",
    "event.generation"
   ]
  ],
  "expired": [
   [
    "row.lease",
    "<",
    "event.now"
   ]
  ],
  "attempt_left": [
   [
    "row.attempts",
    "<",
    "row.max_attempts"
   ]
  ],
  "cancelled": [
   [
    "row.cancel",
    "=",
    1
   ]
  ]
 },
 "rules": [
  {
   "event": "enqueue",
   "from": "absent",
   "to": "pending",
   "guards": [],
   "changes": {
    "available": [
     "event.now",
     "event.delay"
    ],
    "max_attempts": [
     "event.max_attempts"
    ]
   }
  },
  {
   "event": "claim",
   "from": "pending",
   "to": "processing",
   "guards": [
    "due",
    "attempt_left"
   ],
   "changes": {
    "owner": [
     "event.worker"
    ],
    "lease": [
     "event.now",
     "event.lease"
    ],
    "generation": [
     "row.generation",
     1
    ],
    "attempts": [
     "row.attempts",
     1
    ]
   }
  },
  {
   "event": "renew",
   "from": "processing",
   "to": "processing",
   "guards": [
    "held"
   ],
   "changes": {
    "lease": [
     "event.now",
     "event.lease"
    ]
   }
  },
  {
   "event": "complete",
   "from": "processing",
   "to": "completed",
   "guards": [
    "held"
   ],
   "changes": {}
  },
  {
   "event": "end",
   "from": "processing",
   "to": "failed",
   "guards": [
    "held"
   ],
   "changes": {}
  },
  {
   "event": "fail",
   "from": "processing",
   "to": "cancelled",
   "guards": [
    "held",
    "cancelled"
   ],
   "changes": {
    "owner": [
     0
    ],
    "lease": [
     0
    ],
    "crashes": [
     0
    ],
    "lost": [
     0
    ]
   }
  },
  {
   "event": "fail",
   "from": "processing",
   "to": "pending",
   "guards": [
    "held",
    "attempt_left"
   ],
   "changes": {
    "owner": [
     0
    ],
    "lease": [
     0
    ],
    "crashes": [
     0
    ],
    "lost": [
     0
    ],
    "available": [
     "event.now",
     "event.delay"
    ]
   }
  },
  {
   "event": "fail",
   "from": "processing",
   "to": "dead_letter",
   "guards": [
    "held"
   ],
   "changes": {
    "owner": [
     0
    ],
    "lease": [
     0
    ],
    "crashes": [
     0
    ],
    "lost": [
     0
    ]
   }
  },
  {
   "event": "give_up",
   "from": "processing",
   "to": "cancelled",
   "guards": [
    "held",
    "cancelled"
   ],
   "changes": {
    "owner": [
     0
    ],
    "lease": [
     0
    ],
    "crashes": [
     0
    ],
    "lost": [
     0
    ]
   }
  },
  {
   "event": "give_up",
   "from": "processing",
   "to": "dead_letter",
   "guards": [
    "held"
   ],
   "changes": {
    "owner": [
     0
    ],
    "lease": [
     0
    ],
    "crashes": [
     0
    ],
    "lost": [
     0
    ]
   }
  },
  {
   "event": "died",
   "from": "processing",
   "to": "cancelled",
   "guards": [
    "held",
    "cancelled"
   ],
   "changes": {
    "owner": [
     0
    ],
    "lease": [
     0
    ],
    "crashes": [
     "row.crashes",
     1
    ],
    "lost": [
     1
    ]
   }
  },
  {
   "event": "died",
   "from": "processing",
   "to": "pending",
   "guards": [
    "held",
    "attempt_left"
   ],
   "changes": {
    "owner": [
     0
    ],
    "lease": [
     0
    ],
    "crashes": [
     "row.crashes",
     1
    ],
    "lost": [
     1
    ],
    "available": [
     "event.now",
     "event.delay"
    ]
   }
  },
  {
   "event": "died",
   "from": "processing",
   "to": "dead_letter",
   "guards": [
    "held"
   ],
   "changes": {
    "owner": [
     0
    ],
    "lease": [
     0
    ],
    "crashes": [
     "row.crashes",
     1
    ],
    "lost": [
     1
    ]
   }
  },
  {
   "event": "sweep",
   "from": "processing",
   "to": "cancelled",
   "guards": [
    "expired",
    "cancelled"
   ],
   "changes": {
    "owner": [
     0
    ],
    "lease": [
     0
    ],
    "crashes": [
     "row.crashes",
     "row.lost"
    ],
    "lost": [
     1
    ]
   }
  },
  {
   "event": "sweep",
   "from": "processing",
   "to": "pending",
   "guards": [
    "expired",
    "attempt_left"
   ],
   "changes": {
    "owner": [
     0
    ],
    "lease": [
     0
    ],
    "crashes": [
     "row.crashes",
     "row.lost"
    ],
    "lost": [
     1
    ],
    "available": [
     "event.now",
     "event.delay"
    ]
   }
  },
  {
   "event": "sweep",
   "from": "processing",
   "to": "dead_letter",
   "guards": [
    "expired"
   ],
   "changes": {
    "owner": [
     0
    ],
    "lease": [
     0
    ],
    "crashes": [
     "row.crashes",
     "row.lost"
    ],
    "lost": [
     1
    ]
   }
  },
  {
   "event": "hand_back",
   "from": "processing",
   "to": "pending",
   "guards": [
    "held"
   ],
   "changes": {
    "owner": [
     0
    ],
    "lease": [
     0
    ],
    "attempts": [
     "row.attempts",
     -1
    ],
    "available": [
     "event.now"
    ]
   }
  },
  {
   "event": "snooze",
   "from": "processing",
   "to": "pending",
   "guards": [
    "held"
   ],
   "changes": {
    "owner": [
     0
    ],
    "lease": [
     0
    ],
    "attempts": [
     "row.attempts",
     -1
    ],
    "crashes": [
     0
    ],
    "available": [
     "event.now",
     "event.delay"
    ]
   }
  },
  {
   "event": "cancel",
   "from": "pending",
   "to": "cancelled",
   "guards": [],
   "changes": {
    "cancel": [
     1
    ]
   }
  },
  {
   "event": "cancel",
   "from": "processing",
   "to": "processing",
   "guards": [],
   "changes": {
    "cancel": [
     1
    ]
   }
  },
  {
   "event": "run_now",
   "from": "pending",
   "to": "pending",
   "guards": [
    "waiting"
   ],
   "changes": {
    "available": [
     "event.now"
    ]
   }
  },
  {
   "event": "revive",
   "from": "dead_letter",
   "to": "pending",
   "guards": [],
   "changes": {
    "owner": [
     0
    ],
    "lease": [
     0
    ],
    "attempts": [
     0
    ],
    "crashes": [
     0
    ],
    "cancel": [
     0
    ],
    "available": [
     "event.now"
    ]
   }
  },
  {
   "event": "discard",
   "from": "dead_letter",
   "to": "discarded",
   "guards": [],
   "changes": {}
  }
 ]
};
