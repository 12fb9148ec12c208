"""The mgr module wcache does its main job on simulated drives, and survives a failover.

Needs two mgrs and `wcache-probe` on the node of the first mon.  What simulates the drives is in
qa/workunits/mgr/wcache_sim, and is brought there.
"""

import json
import logging
import os
import time

from teuthology.orchestra import run

from .mgr_test_case import MgrTestCase

log = logging.getLogger(__name__)

HOSTNAME = 'simhost'
KEYRING = '/tmp/wcache-probe.keyring'
STATE = '/tmp/wcache-probe'
SIMULATION = '/tmp/wcache-qa'  # the folder of the package wcache_sim
DRIVES = SIMULATION + '/wcache_sim/two_drives.toml'
HERE = os.path.dirname(os.path.abspath(__file__))
WAIT_S = 180

CAPS = ', '.join(
    'allow command "wcache agent %s" with hostname=%s' % (verb, HOSTNAME)
    for verb in ('poll', 'post'))

OPTIONS = {
    'throwaway_cluster': 'true',
    'poll_idle_s': '0.5',
    'settle_s': '0.1',
    'period_s': '0.5',
    'canary_wait_s': '1',
    'gate_by_load': 'false',
}


class TestWcache(MgrTestCase):
    MGRS_REQUIRED = 2

    def setUp(self):
        super(TestWcache, self).setUp()
        self.setup_mgrs()
        # else its options are unknown, which is all that setting one would say
        available = self.mgr_cluster.get_mgr_map()['available_modules']
        (module,) = [each for each in available if each['name'] == 'wcache']
        self.assertTrue(module['can_run'], module['error_string'])
        for name, value in OPTIONS.items():
            self.mgr_cluster.set_module_conf('wcache', name, value)
        self._load_module('wcache')
        self._wait(self._answers)
        self.probe = self._start_probe()
        self._wait(lambda: len(self._drives()) == 2)

    def tearDown(self):
        # the newest: daemon-helper, whose child it is, ends with it.  Closing its input does not do
        # everywhere: vstart_runner of Ceph 18 kills daemon-helper then, and the probe stays.
        self.mgr_cluster.admin_remote.run(
            args=['pkill', '-TERM', '--newest', '--full', '[w]cache_sim %s run' % DRIVES])
        self.probe.wait()
        super(TestWcache, self).tearDown()

    @classmethod
    def tearDownClass(cls):
        # not after each test: a probe that lost its state is another probe to the mgr, which
        # takes no other word for a host until the first has been silent for long
        cls.mgr_cluster.admin_remote.run(args=['rm', '-rf', KEYRING, STATE, SIMULATION])
        super(TestWcache, cls).tearDownClass()

    def _wait(self, condition):
        # not wait_until_true, which counts only what it sleeps: on a busy machine a command
        # takes seconds, and what never comes true would be waited for many times as long
        end = time.monotonic() + WAIT_S
        while not condition():
            self.assertLess(time.monotonic(), end, 'not true after %d s' % WAIT_S)
            time.sleep(1)

    # What an admin types

    def _ceph(self, *args):
        return self.mgr_cluster.mon_manager.raw_cluster_cmd(*args)

    def _wcache(self, *args):
        return json.loads(self._ceph('wcache', *args, '--format', 'json'))

    def _answers(self):
        try:
            return 'drives' in self._wcache('status')
        except Exception as error:
            log.info('no answer yet: %s', error)
            return False

    def _drives(self):
        return {
            drive['drive_model']['model']: drive
            for drive in self._wcache('drive', 'ls')['drives']}

    def _modes(self):
        return {
            model: drive['state']['device_cache'] for model, drive in self._drives().items()}

    def _start_probe(self):
        remote = self.mgr_cluster.admin_remote
        entity = 'client.wcache.' + HOSTNAME
        self._bring_simulation(remote)
        remote.write_file(
            KEYRING,
            self._ceph('auth', 'get-or-create', entity, 'mon', 'profile crash', 'mgr', CAPS))
        return remote.run(
            args=[
                'daemon-helper', 'term', 'python3', SIMULATION + '/wcache_sim', DRIVES,
                'run', '--hostname', HOSTNAME, '--id', 'wcache.' + HOSTNAME, '--keyring', KEYRING,
                '--state-dir', STATE, '--run-dir', STATE + '/run'],
            stdin=run.PIPE, wait=False)

    def _bring_simulation(self, remote):
        folder = os.path.join(HERE, '../../workunits/mgr/wcache_sim')
        remote.run(args=['mkdir', '-p', SIMULATION + '/wcache_sim'])
        for name in os.listdir(folder):
            if name.endswith(('.py', '.toml')):
                with open(os.path.join(folder, name)) as file:
                    remote.write_file('%s/wcache_sim/%s' % (SIMULATION, name), file.read())

    # Steps of the main job

    def _start_campaign(self):
        wanted = ['campaign', 'start', 'host:' + HOSTNAME, 'batch', '--pairs=20',
                  '--consent-turn-on', '--accept-cost']

        def started():
            # a new mgr does not know yet that all PGs are clean
            try:
                self.campaign_id = self._wcache(*wanted)['campaign_id']
            except Exception as error:
                log.info('not started yet: %s', error)
                return False
            return True

        self._wait(started)
        return self.campaign_id

    def _wait_over(self, campaign_id):
        self._wait(
            lambda: self._answers() and self._wcache(
                'campaign', 'show', campaign_id)['status'] != 'running')
        return self._wcache('campaign', 'show', campaign_id)

    def _measure(self):
        shown = self._wait_over(self._start_campaign())
        self.assertEqual(shown['status'], 'done', shown['run_list'])
        return {result['drive_model']['model']: result for result in shown['results']}

    def _wait_plan(self, plan_id, status):
        self._wait(
            lambda: self._answers() and self._wcache(
                'plan', 'show', plan_id)['status'] == status)

    # Tests

    def test_main_job(self):
        before = self._modes()
        self.assertEqual(set(before.values()), {'write back'})
        forecast = self._wcache(
            'campaign', 'start', 'host:' + HOSTNAME, 'batch', '--dry-run')
        self.assertEqual(forecast['forecast']['drives'], 2)

        results = self._measure()
        self.assertEqual(results['DISK']['verdict'], 'write through')
        self.assertGreater(results['DISK']['ratio_low'], 1.1)
        self.assertEqual(results['FLASH']['verdict'], 'write back')
        self.assertLess(results['FLASH']['ratio_high'], 1 / 1.1)
        # what was measured is as it was before
        self.assertEqual(self._modes(), before)

        advice = {
            each['drive_model']['model']: each['mode']
            for each in self._wcache('recommend')['recommendations']}
        self.assertEqual(advice, {'DISK': 'write through', 'FLASH': 'write back'})

        plan = self._wcache('plan')
        self.assertEqual(len(plan['changes']), 1)
        self.assertEqual(plan['changes'][0]['mode'], 'write through')
        self.assertTrue(plan['changes'][0]['manual'])
        self.assertEqual(self._modes(), before)

        plan_id = plan['plan_id']
        self.assertTrue(self._wcache('apply', plan_id)['changed'])
        self._wait_plan(plan_id, 'done')
        (change,) = self._wcache('plan', 'show', plan_id)['changes']
        self.assertEqual(change['status'], 'applied')
        self.assertLess(change['after_us'], change['before_us'])
        self._wait(lambda: self._modes() == dict(before, DISK='write through'))

        self.assertTrue(self._wcache('rollback', plan_id)['changed'])
        self._wait_plan(plan_id, 'rolled back')
        self._wait(lambda: self._modes() == before)

    def test_failover_resumes_and_restores(self):
        before = self._modes()
        campaign_id = self._start_campaign()
        self._wait(
            lambda: any(
                each['status'] == 'running'
                for each in self._wcache('campaign', 'show', campaign_id)['run_list']))
        first = self.mgr_cluster.get_active_id()
        self.mgr_cluster.mgr_fail(first)
        self._wait(lambda: self.mgr_cluster.get_active_id() not in ('', first))
        shown = self._wait_over(campaign_id)
        self.assertEqual(shown['status'], 'done', shown['run_list'])
        said = json.dumps(self._wcache('history', '200'))
        self.assertIn('resumed after a restart of the mgr', said)
        for result in shown['results']:
            record = self._wcache('campaign', 'record', result['record_id'])
            self.assertEqual(
                [pair['index'] for pair in record['pairs']], list(range(len(record['pairs']))))
        self._wait(lambda: self._modes() == before)

    def test_freeze_restores_and_holds(self):
        before = self._modes()
        self._start_campaign()
        self.assertTrue(self._wcache('freeze')['frozen'])
        self._wait(lambda: self._modes() == before)
        with self.assertRaises(Exception):  # noqa: B017  CommandFailedError in teuthology
            self._wcache('campaign', 'start', 'host:' + HOSTNAME, 'batch', '--accept-cost')
        self.assertFalse(self._wcache('freeze', '--thaw')['frozen'])

    def test_self_test(self):
        self._load_module('selftest')
        self._wait(self._answers)
        self._ceph('mgr', 'self-test', 'module', 'wcache')
        modules = self.mgr_cluster.get_mgr_map()['available_modules']
        (options,) = [
            module['module_options'] for module in modules if module['name'] == 'wcache']
        self.assertIn('period_s', options)
        without = [
            name for name, option in options.items()
            if option['type'] != 'str' and option['default_value'] == '']
        self.assertEqual(without, [])
